-- ARGV: idle in ms, idle in ms for a session that has settled nothing.
-- Ends the lease of a session that has an owner. A session that is damaged has none: it takes no write of an owner.

local head, fault = load()
if fault or not head or head.nonce == '' then return {'SKIP'} end
pass()
local now = clock()
head.lease = math.min(head.lease, now)
redis.call('HSET', KEYS[1], 'epoch', decimal(math.max(head.epoch + 1, now)), 'nonce', '', 'lease', decimal(head.lease))
expire(head, now, tonumber(ARGV[1]), tonumber(ARGV[2]))
return {'OK'}
