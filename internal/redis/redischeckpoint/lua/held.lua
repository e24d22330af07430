-- Returns OK, and the owner if a live lease owns the session, else ''.

local head, fault = load()
if fault then return {'INVALID', fault} end
local live = head and head.nonce ~= '' and head.lease > clock()
return {'OK', live and redis.call('HGET', KEYS[1], 'owner') or ''}
