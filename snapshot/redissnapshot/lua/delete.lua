-- ARGV: id, epoch, nonce.
-- OK, and if there was something to delete its entry, which is barred from now on, and the time; FENCED

local run, fault = load()
if fault then return {'INVALID', fault} end
if not run or run.id ~= ARGV[1] then return {'OK'} end
if run.epoch ~= ARGV[2] or run.nonce ~= ARGV[3] then return {'FENCED'} end
local now = clock()
bar('entry ' .. run.entry, now)
bar(over(run.id, run.begun), now)
redis.call('UNLINK', KEYS[1])
return {'OK', run.entry, decimal(now)}
