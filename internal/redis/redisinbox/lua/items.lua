-- ARGV: after which item, as its at, a zero byte and its id, or ''; how many items; how many bytes, which the first item
-- may exceed; the token of the session's entry in the index, or ''.
-- Returns MORE or END, and of each item the rest of its member. With a token and without items: DROP and the time, and
-- the token is barred from now on; or SKIP if the server takes no write.

local after, most, bytes, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local head, fault = load()
if fault then return {'INVALID', fault} end
local from = after == '' and '[item\0' or '[item\0' .. after .. '\1'
local reply, offset, step = {'END'}, 0, 4
while head do
  local page = redis.call('ZRANGE', KEYS[1], from, '(item\1', 'BYLEX', 'LIMIT', offset, step)
  for _, member in ipairs(page) do
    bytes = bytes - #member
    if #reply > most or #reply > 1 and bytes < 0 then
      reply[1] = 'MORE'
      return reply
    end
    table.insert(reply, member:sub(6))
  end
  if #page < step then break end
  offset = offset + step
end
if #reply > 1 or token == '' then return reply end
if find('id') then return {'INVALID', 'an item is missing'} end
local refused = redis.pcall('ZREM', KEYS[1], '')
if type(refused) == 'table' then return {'SKIP'} end -- the server takes no write, but can be read
local now = clock()
save(head, head and head.top or 0, math.max(head and head.barred or 0, tonumber(token)))
expire()
return {'DROP', decimal(now)}
