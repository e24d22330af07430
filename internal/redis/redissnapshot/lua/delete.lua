-- ARGV: id, epoch, nonce, for how many ms id and fence are kept.
-- Returns OK, and if a run was deleted its entry, which is barred from now on, and the time; FENCED.
-- If a run is damaged, only its fence and its id are compared, as far as they can be read.

local id, epoch, nonce, remember = unpack(ARGV)

local run, kept, fault = load()
if fenced(kept, epoch, nonce) then return {'FENCED'} end
if fault then run = kept or {} end
if not run or run.status == over or run.id and run.id ~= '' and run.id ~= id then return {'OK'} end
if run.legible and run.epoch ~= epoch then return {'FENCED'} end
local now = clock()
local entry = run.entry
if kept then pass() else redis.call('UNLINK', KEYS[1]) end
keep(id, epoch, nonce, not fault and run.found or '0', above(kept, entry), remember)
if not entry then return {'OK'} end
return {'OK', entry, decimal(now)}
