-- ARGV: after which number; how many entries.
-- Returns MORE or OK, the number to go on after, life, and of each run the first of these entries: run, from; NONE.

local after, most = tonumber(ARGV[1]), tonumber(ARGV[2])

local head, fault = load()
if fault then return {'INVALID', fault} end
if not head then return {'NONE'} end
after = math.max(after, head.first - 1)
local found, seen = {}, {}
local few = 8 -- at once, because an entry may have some MiB
local more = after < head.last
while more and most > 0 do
  local page = redis.call('XRANGE', KEYS[1], decimal(after + 1) .. '-0', decimal(head.last) .. '-0', 'COUNT', few)
  for _, entry in ipairs(page) do
    local f = fields(entry)
    local last, from = entry[1]:match('^(%d+)-0$'), number(f.from)
    if not last or not from or not f.run then
      return {'INVALID', 'entry ' .. entry[1] .. ' has no chunks'}
    end
    if not seen[f.run] then
      seen[f.run] = true
      table.insert(found, f.run)
      table.insert(found, decimal(math.max(from, head.first)))
    end
    most, after = most - 1, tonumber(last)
  end
  more = #page == few and after < head.last
end
local reply = {more and 'MORE' or 'OK', decimal(after), head.life or ''}
for _, value in ipairs(found) do table.insert(reply, value) end
return reply
