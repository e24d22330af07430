-- ARGV: epoch, nonce, lease in µs, idle in ms, idle in ms for a session that has settled nothing.

local head, fault = load()
if fault then return {'INVALID', fault} end
if not head or decimal(head.epoch) ~= ARGV[1] or head.nonce ~= ARGV[2] then return {'FENCED'} end
pass()
local now = clock()
head.lease = now + tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'lease', decimal(head.lease))
expire(head, now, tonumber(ARGV[4]), tonumber(ARGV[5]))
return {'OK'}
