-- ARGV: call, entry, when it was seen in the index, then of the run: id, request, turn, attempt, base, status, seq, epoch,
-- nonce, error, not before, payload.
-- OK; FOUND and the run in flight; FENCED if this one is over; INDEX and the time if the entry is not to be relied on

local call, entry, seen, id, request, turn, attempt, base, status, seq, epoch, nonce, failure, notbefore, payload = unpack(ARGV)

local run, fault = load()
if fault then return {'INVALID', fault} end
if run then return run.call == call and {'OK'} or tell('FOUND') end
if barred(over(id, nonce)) then return {'FENCED'} end
local now = clock()
if barred('entry ' .. entry) or now - seen > 20 * minute then
  bar('entry ' .. entry, now)
  return {'INDEX', decimal(now)}
end
redis.call('HSET', KEYS[1], 'id', id, 'request', request, 'turn', turn, 'attempt', attempt, 'base', base, 'status', status,
  'seq', seq, 'epoch', epoch, 'nonce', nonce, 'error', failure, 'not_before', notbefore, 'payload', payload,
  'started', decimal(now), 'saved', decimal(now), 'begun', nonce, 'call', call, 'entry', entry)
return {'OK'}
