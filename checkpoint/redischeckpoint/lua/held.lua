-- Returns OK, and 1 if a live lease owns the session, else 0.

local head, fault = load()
if fault then return {'INVALID', fault} end
return {'OK', head and head.nonce ~= '' and head.lease > clock() and '1' or '0'}
