-- KEYS: a transcript, or the key that says where new ones begin.
-- Returns OK, or SKIP if no store wrote the key.

local _, fault = load()
if fault then return {'SKIP'} end
local was, now = find('raised'), stamp(clock())
if not was or was < now then
  pass()
  change('ZADD', {'raised\0' .. now})
  if was then change('ZREM', {'raised\0' .. was}) end
end
return {'OK'}
