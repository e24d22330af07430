-- ARGV: epoch, nonce, summarized, delivered, release, idle in ms, idle in ms for a session that has settled nothing,
-- retry in µs or 0, number of the attempt.
-- The numbers of one owner's failed attempts grow: a copy of such a mark is not counted.

local epoch, nonce, summarized, delivered, release, idle, unsettled, retry, attempt = unpack(ARGV)

local head, fault = load()
if fault then return {'INVALID', fault} end
if not head or decimal(head.epoch) ~= epoch or head.nonce ~= nonce and head.nonce ~= '' then
  if summarized == '0' and delivered == '0' and retry == '0' and release == '1' then return {'OK'} end
  return {'FENCED'}
end
pass()
local now = clock()
local settled = head.turn + 1
head.summarized = math.max(head.summarized, math.min(tonumber(summarized), settled))
redis.call('HSET', KEYS[1], 'summarized', decimal(head.summarized))
if head.owed and tonumber(delivered) > head.owed then
  if tonumber(delivered) < settled then
    head.owed = tonumber(delivered)
    redis.call('HSET', KEYS[1], 'owed', delivered)
  else
    head.owed = nil
    redis.call('HDEL', KEYS[1], 'owed')
  end
  if head.failed then
    head.failed = nil
    redis.call('HDEL', KEYS[1], 'failed', 'retry')
  end
end
if retry ~= '0' and head.owed and tonumber(attempt) > (head.tried or 0) then
  head.failed = (head.failed or 0) + 1
  redis.call('HSET', KEYS[1], 'failed', decimal(head.failed), 'retry', decimal(now + retry), 'tried', attempt)
end
if release == '1' and head.nonce ~= '' then
  head.lease = now
  redis.call('HSET', KEYS[1], 'nonce', '', 'lease', decimal(now))
end
expire(head, now, tonumber(idle), tonumber(unsettled))
return {'OK'}
