-- ARGV: epoch, nonce, most attempts, for how many ms the fence is kept if no run is in flight.
-- Returns OK or PARKED and the run, then the name and the document of each part; NONE; FENCED; INVALID, and the
-- fence is ours.

local epoch, nonce, most, remember = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local run, kept, fault = load()
if fenced(kept, epoch, nonce) then return {'FENCED'} end
if kept or not fault then pass() end
if fault and not (kept and kept.status == over) then
  if not kept then redis.call('UNLINK', KEYS[1]) end
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'nonce', nonce)
  run, kept, fault = load()
  if fault then return damaged(fault, kept) end
end
if not run then
  keep('', epoch, nonce, not fault and kept and kept.found or '0', above(kept), remember)
  return {'NONE'}
end
if epoch ~= run.epoch and most > 0 and run.status ~= 'parked' and run.status ~= 'ended' then
  local attempt = tonumber(run.attempt)
  if attempt < most then
    redis.call('HSET', KEYS[1], 'attempt', decimal(attempt + 1))
  else
    run.status = 'parked'
    redis.call('HSET', KEYS[1], 'status', run.status)
  end
end
redis.call('HSET', KEYS[1], 'epoch', epoch, 'nonce', nonce)
local reply = tell(most > 0 and run.status == 'parked' and 'PARKED' or 'OK')
if run.parts == '1' and reply[1] ~= 'INVALID' then
  for _, field in ipairs(parts()) do
    table.insert(reply, field:sub(#prefix + 1))
    table.insert(reply, redis.call('HGET', KEYS[1], field))
  end
end
return reply
