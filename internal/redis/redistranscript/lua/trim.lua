-- ARGV: call; when it began, or '' to be told; before which time entries go, or '' for all; spans in their order.
-- Returns OK and how many messages are gone; BEGIN and the time, to bring back.
--
-- If the key is damaged, only a call for all removes anything, and removes everything.

local call, began, before = ARGV[1], ARGV[2], tonumber(ARGV[3])
local all = not before

local barred, fault = load()
if fault and not all then return {'INVALID', fault} end
local now = clock()
if fault then
  if late(began, now) then return {'BEGIN', decimal(now)} end
  redis.call('UNLINK', KEYS[1])
  return {'OK', '0'}
end
local known = find('done', call)
if known then return {'OK', known:sub(18)} end

local gone, count, at, stays = {}, 0, 4, last(newest)
each(0, nil, function(e)
  while at < #ARGV and tonumber(ARGV[at + 1]) < e.from do at = at + 2 end
  local named = at < #ARGV and tonumber(ARGV[at]) <= e.through
  if all or not (e.bad or named or e.key == stays.key or e.at >= before) then
    table.insert(gone, e)
    count = count + e.through - e.from + 1
  end
  return true
end)
if #gone == 0 and began == '' and not (all and (find('body') or find('id'))) then return {'OK', '0'} end
if late(began, now) then return {'BEGIN', decimal(now)} end

-- A late copy of an Append must not bring its entry back. After an hour it is refused anyway.
local calls, old = {'barred\0' .. stamp(now), done(call, now, decimal(count))}, {}
for _, e in ipairs(gone) do
  if not e.bad and e.id ~= '' and now - e.at < 60 * minute then
    table.insert(calls, done(e.call, now, e.key, decimal(e.through)))
  end
end
for _, time in ipairs(members(0, -1, 'barred')) do
  if time ~= stamp(now) then table.insert(old, 'barred\0' .. time) end
end
for _, effect in ipairs(members(0, 1000, 'done')) do
  local time = tonumber(effect:match('^[^%z]*%z(%d+)')) or 0
  if now - time > 60 * minute then table.insert(old, 'done\0' .. effect) end
end
pass()
change('ZADD', calls)
change('ZREM', old)

-- Bodies are large. So there are a few at a time.
if all then
  for kind, some in pairs({entry = 500, id = 500, body = 8}) do
    local found = members(0, some, kind)
    while #found > 0 do
      for i, member in ipairs(found) do found[i] = kind .. '\0' .. member end
      change('ZREM', found)
      found = members(0, some, kind)
    end
  end
else
  for _, e in ipairs(gone) do
    local parts = {'entry\0' .. e.member}
    if e.id ~= '' then table.insert(parts, table.concat({'id', e.id, e.key}, '\0')) end
    local body = find('body', e.key)
    if body then table.insert(parts, table.concat({'body', e.key, body}, '\0')) end
    change('ZREM', parts)
  end
end
if not last(newest) then redis.call('PEXPIRE', KEYS[1], 60 * minute / 1000) end
return {'OK', decimal(count)}
