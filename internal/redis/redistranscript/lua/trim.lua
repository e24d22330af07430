-- ARGV: call; when it began, or '' to be told; before which time entries go, or '' for all; behind which entry to look,
-- or ''; spans in their order.
-- Returns OK, how many messages are gone, and if there may be more, the last entry that it has looked at; BEGIN and the
-- time, to bring back.
--
-- Other clients of the server wait meanwhile, so a call looks at a part. If the key is damaged, only a call for all
-- removes anything, and removes everything.

local mostSeen, mostGone, mostBytes = 1000, 200, 1024 * 1024
local call, began, before, after = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
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
if known then
  local n, place = known:sub(18):match('^(%d+)%z?(.*)$')
  return {'OK', n, place}
end

local gone, count, bytes, at, stays, place = {}, 0, 0, 5, last(newest), ''
local low = after == '' and '[entry\0' or '(entry\0' .. after
local page = redis.call('ZRANGE', KEYS[1], low, newest, 'BYLEX', 'LIMIT', 0, mostSeen)
for i, member in ipairs(page) do
  local e = parse(member:sub(7))
  while at < #ARGV and tonumber(ARGV[at + 1]) < e.from do at = at + 2 end
  local named = at < #ARGV and tonumber(ARGV[at]) <= e.through
  if all or not (e.bad or named or e.key == stays.key or e.at >= before) then
    e.body = find('body', e.key)
    table.insert(gone, e)
    count, bytes = count + e.through - e.from + 1, bytes + #(e.body or '')
  end
  if i == mostSeen or #gone == mostGone or bytes >= mostBytes then
    place = e.member
    break
  end
end
if #gone == 0 and began == '' and not (all and (find('body') or find('id'))) then return {'OK', '0', place} end
if late(began, now) then return {'BEGIN', decimal(now)} end

-- A late copy of an Append must not bring its entry back. After an hour it is refused anyway.
local calls, old = {'barred\0' .. stamp(now), done(call, now, decimal(count), place)}, {}
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
for _, e in ipairs(gone) do
  local parts = {'entry\0' .. e.member}
  if e.id and e.id ~= '' then table.insert(parts, table.concat({'id', e.id, e.key}, '\0')) end
  if e.body then table.insert(parts, table.concat({'body', e.key, e.body}, '\0')) end
  change('ZREM', parts)
end
if all and place == '' then -- parts of entries that are not there
  for kind, most in pairs({body = 8, id = 500}) do
    local lost = members(0, most, kind)
    for i, member in ipairs(lost) do lost[i] = kind .. '\0' .. member end
    change('ZREM', lost)
    if #lost == most then place = '\255' end
  end
end
if not last(newest) then redis.call('PEXPIRE', KEYS[1], 60 * minute / 1000) end
return {'OK', decimal(count), place}
