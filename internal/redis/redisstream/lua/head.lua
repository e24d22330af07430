-- Precedes every script that looks at a session. KEYS: the stream of the session. A session has one key, so that a script
-- finds all of it or nothing while a cluster moves its slot.

local function number(text)
  return text and (text == '0' or text:find('^[1-9]%d*$')) and tonumber(text)
end

-- Returns a map of the fields of an entry.
local function fields(entry)
  local map = {}
  for i = 1, #entry[2], 2 do map[entry[2][i]] = entry[2][i + 1] end
  return map
end

-- Returns the head, which is the newest entry; nil if nothing is kept. The second value says what is wrong if no store
-- wrote the key. Numbers of chunks have less than 53 bits. Epochs stay text.
local function load()
  local newest = redis.pcall('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
  if newest.err then
    if not newest.err:find('WRONGTYPE', 1, true) then error(newest.err) end
    return nil, newest.err
  end
  if #newest == 0 then return nil end
  local head = fields(newest[1])
  local last, mark = newest[1][1]:match('^(%d+)-(%d+)$')
  head.id, head.last, head.mark = newest[1][1], tonumber(last), tonumber(mark)
  head.start, head.first = number(head.start), number(head.first)
  if not number(head.epoch) or not head.status or not head.run or not head.start or not head.first or not head.calls then
    return nil, 'newest entry ' .. head.id .. ' is no head'
  end
  return head
end

-- Epochs have more digits than a number of Lua holds.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
