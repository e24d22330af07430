-- ARGV: epoch, nonce. A copy of this that comes late spares the next life of the session.

local head, fault = load()
if fault then return {'INVALID', fault} end
if head and (decimal(head.epoch) ~= ARGV[1] or head.nonce ~= ARGV[2]) then return {'FENCED'} end
redis.call('UNLINK', unpack(KEYS))
return {'OK'}
