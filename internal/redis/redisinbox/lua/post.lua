-- ARGV: call, token, when the token was seen in the index, id, by, shown, data.
-- Returns OK and who has posted the item; INDEX, the time and the highest barred token, if no item may rely on the token.

local call, token, seen, id, by, shown, data = unpack(ARGV)
token = tonumber(token)

local head, fault = load()
if fault then return {'INVALID', fault} end
local top, barred = head and head.top or 0, head and head.barred or 0
local now = clock()
if token <= barred or now - seen > 20 * minute then
  if done(call) then return {'OK', by} end
  barred = math.max(barred, token)
  save(head, top, barred)
  if not head then expire() end
  return {'INDEX', decimal(now), decimal(barred)}
end
top = math.max(top, token)
local place = find('id', id)
if place then
  local item = find('item', place:sub(1, 16), id)
  if not item then return {'INVALID', 'the item is missing'} end
  if top > head.top then
    pass()
    save(head, top, barred)
  end
  return {'OK', item:match('^[^%z]*')}
end
local at = stamp(now)
save(head, top, barred, table.concat({'id', id, at, call}, '\0'), table.concat({'item', at, id, by, shown, data}, '\0'))
redis.call('PERSIST', KEYS[1])
return {'OK', by}
