-- ARGV: epoch, nonce, summarized, delivered, release, idle in ms.

local head, fault = load()
if fault then return {'INVALID', fault} end
if not head or decimal(head.epoch) ~= ARGV[1] or head.nonce ~= ARGV[2] and head.nonce ~= '' then
  if ARGV[3] == '0' and ARGV[4] == '0' and ARGV[5] == '1' then return {'OK'} end
  return {'FENCED'}
end
local now = clock()
local settled = head.turn + 1
head.summarized = math.max(head.summarized, math.min(tonumber(ARGV[3]), settled))
redis.call('HSET', KEYS[1], 'summarized', decimal(head.summarized))
local delivered = tonumber(ARGV[4])
if head.owed and delivered > head.owed then
  if delivered < settled then
    head.owed = delivered
    redis.call('HSET', KEYS[1], 'owed', ARGV[4])
  else
    head.owed = nil
    redis.call('HDEL', KEYS[1], 'owed')
  end
end
if ARGV[5] == '1' and head.nonce ~= '' then
  head.lease = now
  redis.call('HSET', KEYS[1], 'nonce', '', 'lease', decimal(now))
end
expire(head, now, tonumber(ARGV[6]))
return {'OK'}
