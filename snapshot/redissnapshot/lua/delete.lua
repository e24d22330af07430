-- ARGV: id, epoch, nonce, for how many ms id and fence are kept.
-- OK, and if there was something to delete its entry, which is barred from now on, and the time; FENCED

local id, epoch, nonce, remember = unpack(ARGV)

local run, kept, fault = load()
if fault then return {'INVALID', fault} end
if fenced(kept, epoch, nonce) then return {'FENCED'} end
if not run or run.id ~= id then return {'OK'} end
if run.epoch ~= epoch then return {'FENCED'} end
local now = clock()
bar(run.entry, now)
keep(id, epoch, nonce, run.found, remember)
return {'OK', run.entry, decimal(now)}
