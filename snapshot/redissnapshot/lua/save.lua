-- ARGV: id, request, turn, attempt, base, status, seq, epoch, nonce, error, not before, payload.
-- OK; FENCED

local id, request, turn, attempt, base, status, seq, epoch, nonce, failure, notbefore, payload = unpack(ARGV)

local run, fault = load()
if fault then return {'INVALID', fault} end
if not run or run.id ~= id or run.epoch ~= epoch or run.nonce ~= nonce then return {'FENCED'} end
if not less(run.seq, seq) then return {'OK'} end
if run.status == 'ended' then return {'FENCED'} end
redis.call('HSET', KEYS[1], 'request', request, 'turn', turn, 'attempt', attempt, 'base', base, 'status', status,
  'seq', seq, 'error', failure, 'not_before', notbefore, 'payload', payload, 'saved', decimal(clock()))
return {'OK'}
