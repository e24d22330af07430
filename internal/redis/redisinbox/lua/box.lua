-- Precedes every script on the items of a kind in a session. KEYS: the items. The members are:
--   head, top, barred
--   id, ID, at, call       for each item: where it is, and the call that posted it
--   item, at, ID, by, shown, data
--   done, time, call       for a while: calls that have had their effect, and must have no other
-- top is the highest token of an index entry that a Post has brought, and barred the highest that no Post may bring.

local minute = 60 * 1000000

-- Returns the head; nil if there is no key. If no store wrote the key, returns nil and what is wrong with it, and then
-- true if the key is of another type, or the member that is no head.
local function load()
  local found = redis.pcall('ZRANGE', KEYS[1], '[head\0', '(head\1', 'BYLEX', 'LIMIT', 0, 1)
  if found.err then
    if not found.err:find('WRONGTYPE', 1, true) then error(found.err) end
    return nil, found.err, true
  end
  if not found[1] then
    if redis.call('EXISTS', KEYS[1]) == 0 then return nil end
    return nil, 'there is no head'
  end
  local top, barred = found[1]:match('^head%z(%d+)%z(%d+)$')
  if not top then return nil, 'the head is ' .. found[1]:gsub('%z', ' '), found[1] end
  return {text = found[1], top = tonumber(top), barred = tonumber(barred)}
end

-- Writes the head, and other members in the same command. head is what load has returned, or nil.
local function save(head, top, barred, ...)
  local text = table.concat({'head', decimal(top), decimal(barred)}, '\0')
  local added = {0, text}
  for _, member in ipairs({...}) do
    table.insert(added, 0)
    table.insert(added, member)
  end
  redis.call('ZADD', KEYS[1], unpack(added))
  if head and head.text ~= text then redis.call('ZREM', KEYS[1], head.text) end
end

-- Returns whether a call has had its effect.
local function done(call)
  for _, each in ipairs(members(0, -1, 'done')) do
    if each:sub(18) == call then return true end
  end
  return false
end

-- Keeps a head without items for an hour. After 20 minutes no request is taken that it would refuse.
local function expire()
  local hour = 60 * minute / 1000
  if redis.call('PTTL', KEYS[1]) < hour then redis.call('PEXPIRE', KEYS[1], hour) end
end

