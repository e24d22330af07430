-- ARGV: how many entries; how many bytes, which the first entry may exceed, or '' for all entries without their bodies;
-- spans in their order.
-- Returns MORE or END, the time, and of each entry its numbers, its call and its body.

local most, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])

local _, fault = load()
if fault then return {'INVALID', fault} end
local reply, n, given = {'END', decimal(clock())}, 0, 0

local function give(e)
  if e.from <= given then return true end -- two spans name it
  local body = ''
  if bytes then
    if n == most or n > 0 and bytes <= 0 then return false end
    body = not e.bad and find('body', e.key) or ''
    bytes = bytes - #body
    if n > 0 and bytes < 0 then return false end
  end
  for _, value in ipairs({decimal(e.from), decimal(e.through), e.call or '', body}) do table.insert(reply, value) end
  n, given = n + 1, e.from
  return true
end

for i = 3, #ARGV, 2 do
  if not each(tonumber(ARGV[i]), tonumber(ARGV[i + 1]), give) then
    reply[1] = 'MORE'
    break
  end
end
return reply
