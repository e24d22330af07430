-- KEYS: the key that says where new transcripts begin.
-- Returns OK and the number before their first one.

local _, fault = load()
if fault then return {'INVALID', fault} end
return {'OK', find('raised') or '0'}
