-- ARGV: µs. Deletes a transcript to which nothing was added for so long. The memory is freed beside other commands.
-- Returns OK; SKIP if nothing is deleted.

local _, fault = load()
if fault then return {'SKIP'} end
local e = last(newest)
if not e or e.bad or clock() - e.at < tonumber(ARGV[1]) then return {'SKIP'} end
redis.call('UNLINK', KEYS[1])
return {'OK'}
