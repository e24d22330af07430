-- ARGV: epoch, nonce. A copy of this call that comes late spares the next life of the session, unless that life is
-- damaged.

local head, fault = load()
if head and not fault and (decimal(head.epoch) ~= ARGV[1] or head.nonce ~= ARGV[2]) then return {'FENCED'} end
redis.call('UNLINK', KEYS[1])
return {'OK'}
