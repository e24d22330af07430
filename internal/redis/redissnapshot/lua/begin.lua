-- ARGV: call, entry, when the entry was seen in the index, then of the run: id, request, turn, attempt, base, status,
-- seq, epoch, nonce, error, pause, payload, and the name and the document of each part.
-- Returns OK; FOUND and the run in flight; FENCED; INDEX, the time and the highest barred token, if no run may rely on
-- the entry.

local call, entry, seen, id, request, turn, attempt, base, status, seq, epoch, nonce, failure, pause, payload =
  unpack(ARGV, 1, 15)

local run, kept, fault = load()
if fault then return damaged(fault, kept) end
if run and run.call == call then return {'OK'} end
if run then
  pass()
  if less(run.found, epoch) then redis.call('HSET', KEYS[1], 'found', epoch) end
  return tell('FOUND')
end
if kept and not (less(kept.epoch, epoch) and less(kept.found, epoch)) then return {'FENCED'} end
local now = clock()
if kept and tonumber(entry) <= tonumber(kept.barred) or now - seen > 20 * minute then
  bar(kept, entry)
  return {'INDEX', decimal(now), above(kept, entry)}
end
redis.call('HSET', KEYS[1], 'id', id, 'request', request, 'turn', turn, 'attempt', attempt, 'base', base,
  'status', status, 'seq', seq, 'epoch', epoch, 'nonce', nonce, 'error', failure, 'not_before', notbefore(now, pause),
  'payload', payload, 'started', decimal(now), 'saved', decimal(now), 'call', call, 'entry', entry,
  'parts', #ARGV > 15 and '1' or '0')
if kept then redis.call('PERSIST', KEYS[1]) end -- only after the write that a full server refuses
if #ARGV > 15 then add(16) end
return {'OK'}
