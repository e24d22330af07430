-- ARGV: status or '' for any, entry or '', and what is not read: 'brief' for the documents, 'listed' for the payload of a
-- run that waits for a person, or ''; 1 to skip a run that waits for a person.
-- Returns RUN and the run; SKIP; DROP and the time if no run is in flight. Then the entry is barred from now on.

local run, kept, fault = load()
if fault then return damaged(fault, kept) end
if run then
  local waits = run.status == 'suspended' or run.status == 'parked'
  if ARGV[1] ~= '' and ARGV[1] ~= run.status or ARGV[4] == '1' and waits then return {'SKIP'} end
  return tell('RUN', ARGV[3] == 'brief' and documents or ARGV[3] == 'listed' and waits and {payload = true})
end
if ARGV[2] == '' then return {'SKIP'} end
local refused = redis.pcall('HDEL', KEYS[1], '')
if type(refused) == 'table' then return {'SKIP'} end -- the server takes no write, but can be read
local now = clock()
bar(kept, ARGV[2])
return {'DROP', decimal(now)}
