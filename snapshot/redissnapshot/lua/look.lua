-- ARGV: status or '' for any, entry or '', 1 for a brief run.
-- Returns RUN and the run; SKIP; DROP and the time if no run is in flight. Then the entry is barred from now on.

local run, kept, fault = load()
if fault then return damaged(fault, kept) end
if run then return (ARGV[1] == '' or ARGV[1] == run.status) and tell('RUN', ARGV[3] == '1') or {'SKIP'} end
if ARGV[2] == '' then return {'SKIP'} end
local refused = redis.pcall('HDEL', KEYS[1], '')
if type(refused) == 'table' then return {'SKIP'} end -- the server takes no write, but can be read
local now = clock()
bar(kept, ARGV[2])
return {'DROP', decimal(now)}
