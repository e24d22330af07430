-- ARGV: after which number, -1 for the newest run; how many entries; after how many bytes there are enough.
-- Returns OK, last, first, after which number, status, life, and of each entry from, last, run, data; NONE.

local after, most, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local head, fault = load()
if fault then return {'INVALID', fault} end
if not head then return {'NONE'} end
if after < 0 then after = math.max(head.start, head.first) - 1 end
local reply = {'OK', decimal(head.last), decimal(head.first), decimal(after), head.status, head.life or ''}
if after < head.first - 1 or after >= head.last then return reply end
local from, size = decimal(after + 1) .. '-0', 0
local few = 8 -- at once, because an entry may have some MiB
while most > 0 and size < bytes do
  local page = redis.call('XRANGE', KEYS[1], from, decimal(head.last) .. '-0', 'COUNT', few)
  for _, entry in ipairs(page) do
    local f = fields(entry)
    local last = entry[1]:match('^(%d+)-0$')
    if not last or not f.from or not f.run or not f.data then
      return {'INVALID', 'entry ' .. entry[1] .. ' has no chunks'}
    end
    table.insert(reply, f.from)
    table.insert(reply, last)
    table.insert(reply, f.run)
    table.insert(reply, f.data)
    most, size, from = most - 1, size + #f.data, decimal(tonumber(last) + 1) .. '-0'
    if most == 0 or size >= bytes then break end
  end
  if #page < few then break end
end
return reply
