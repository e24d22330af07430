-- ARGV: call, when the call began or '' to be told, then the ids, or nothing for all.
-- Returns BEGIN and the time, to bring back; OK; or OK, the barred token and the time, if no item is left.
--
-- If the key is damaged, only a call for all removes anything, and removes everything.

local call, began = ARGV[1], ARGV[2]

local head, fault, wrong = load()
if not head and not fault then return {'OK'} end
if fault and #ARGV > 2 then return {'INVALID', fault} end
local now = clock()
if began == '' and not fault and not find('item') and not find('id') then return {'OK'} end
if began == '' or now - began > 20 * minute then return {'BEGIN', decimal(now)} end
if wrong == true then
  redis.call('UNLINK', KEYS[1])
  return {'OK'}
end
if done(call) then return {'OK'} end

local gone, calls = {}, {table.concat({'done', stamp(now), call}, '\0')}
-- A copy of the Post of an item that goes must not bring it back.
local function forget(id, place)
  table.insert(gone, table.concat({'id', id, place}, '\0'))
  table.insert(calls, table.concat({'done', stamp(now), place:sub(18)}, '\0'))
end
if #ARGV == 2 then
  for _, each in ipairs(members(0, -1, 'id')) do
    local id, place = each:match('^([^%z]*)%z(.*)$')
    if id then forget(id, place) else table.insert(gone, 'id\0' .. each) end
  end
  for _, each in ipairs(members(0, -1, 'item')) do table.insert(gone, 'item\0' .. each) end
end
for i = 3, #ARGV do
  local place = find('id', ARGV[i])
  if place then
    local item = find('item', place:sub(1, 16), ARGV[i])
    if item then table.insert(gone, table.concat({'item', place:sub(1, 16), ARGV[i], item}, '\0')) end
    forget(ARGV[i], place)
  end
end
for _, each in ipairs(members(0, 100, 'done')) do
  if now - (tonumber(each:sub(1, 16)) or 0) > 30 * minute then table.insert(gone, 'done\0' .. each) end
end

-- No Post that has come before may come again. Without a head nobody knows their tokens, which are times.
local top, barred = head and head.top or 0, head and math.max(head.barred, head.top) or now + 10 * minute
pass()
if wrong then table.insert(gone, wrong) end
local chunk = 500
for i = 1, #calls, chunk do save(nil, top, barred, unpack(calls, i, math.min(i + chunk - 1, #calls))) end
if head and (head.top ~= top or head.barred ~= barred) then table.insert(gone, head.text) end
for i = 1, #gone, chunk do redis.call('ZREM', KEYS[1], unpack(gone, i, math.min(i + chunk - 1, #gone))) end
if find('item') then return {'OK'} end
expire()
return {'OK', decimal(top), decimal(now)}
