-- Refuses the fence of a session from now on. No caller has the nonce that takes its place: nonces are random. A fence
-- that cannot be read is no owner's.

local run, kept, fault = load()
if not kept or not kept.legible or kept.nonce == '' or kept.nonce == 'raised' then return {'SKIP'} end
pass()
local now = decimal(clock())
redis.call('HSET', KEYS[1], 'epoch', less(kept.epoch, now) and now or kept.epoch, 'nonce', 'raised')
return {'OK'}
