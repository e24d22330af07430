-- ARGV: epoch, nonce, most attempts.
-- OK or PARKED and the run; NONE; FENCED

local epoch, nonce, most = ARGV[1], ARGV[2], tonumber(ARGV[3])

local run, fault = load()
if fault then return {'INVALID', fault} end
if not run then return {'NONE'} end
local mine = epoch == run.epoch and nonce == run.nonce
if less(epoch, run.epoch) or epoch == run.epoch and not mine then return {'FENCED'} end
if not mine and most > 0 and run.status ~= 'parked' and run.status ~= 'ended' then
  local attempt = tonumber(run.attempt)
  if attempt < most then
    redis.call('HSET', KEYS[1], 'attempt', decimal(attempt + 1))
  else
    run.status = 'parked'
    redis.call('HSET', KEYS[1], 'status', run.status)
  end
end
redis.call('HSET', KEYS[1], 'epoch', epoch, 'nonce', nonce)
return tell(most > 0 and run.status == 'parked' and 'PARKED' or 'OK')
