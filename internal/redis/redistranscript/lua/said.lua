-- Precedes every script on a transcript. KEYS: the transcript. The members are:
--   entry, FROM, through, at, call, id   the numbers of an entry, when it came, and by which call; no id if it was copied
--   body, FROM, body                     its messages
--   id, ID, FROM                         finds it
--   done, CALL, time, ...                for an hour: calls that have had their effect, and must have no other, and what
--                                        they return
--   barred, time                         of the newest Trim: no call that began before may write
--   raised, number                       of the newest Raise: the next entry comes behind it
-- FROM, times and the number have 16 digits, so that their order is that of the bytes.

local minute = 60 * 1000000

-- Returns the time of the newest Trim, or 0. If no store wrote the key, returns nil and what is wrong with it.
local function load()
  local found = redis.pcall('ZRANGE', KEYS[1], '[barred\0', '(barred\1', 'BYLEX', 'LIMIT', 0, 1)
  if found.err then
    if not found.err:find('WRONGTYPE', 1, true) then error(found.err) end
    return nil, found.err
  end
  return tonumber(found[1] and found[1]:sub(8)) or 0
end

-- Returns whether a request is too late to write. began is when its call began, or ''. A copy that is so late might do
-- again what the call has done.
local function late(began, now)
  began = tonumber(began)
  return not began or began > now or now - began > 20 * minute
end

-- Returns an entry of a member, which has lost the word entry. If its numbers cannot be read, the entry is bad, and has
-- one number.
local function parse(member)
  local key, through, rest = member:match('^(%d+)%z(%d+)%z(.*)$')
  if not key then
    key = member:match('^%d*')
    local from = tonumber(key) or 0
    return {member = member, key = key, from = from, through = from, bad = true}
  end
  local at, call, id = rest:match('^(%d+)%z([^%z]*)%z(.*)$')
  return {
    member = member, key = key, from = tonumber(key), through = tonumber(through), at = tonumber(at) or 0,
    call = call or '', id = id or ''
  }
end

-- Returns the last entry below a bound, or nil.
local function last(bound)
  local found = redis.call('ZRANGE', KEYS[1], bound, '[entry\0', 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  return found and parse(found:sub(7))
end

local newest = '(entry\1' -- the bound of all entries

-- Returns the first bound behind an entry that begins at a number.
local function behind(from)
  return '[entry\0' .. stamp(from) .. '\1'
end

-- Calls give with each entry that has a number of from to through, or all from that number on. Returns false once give
-- has returned false. Entries have no number in common. So the first of them is the last one that begins at from or
-- before, if there is one.
local function each(from, through, give)
  local first, high = last(behind(from)), through and behind(through) or newest
  local low = '[entry\0' .. (first and first.through >= from and first.key or stamp(from))
  local step = 8
  while true do
    local page = redis.call('ZRANGE', KEYS[1], low, high, 'BYLEX', 'LIMIT', 0, step)
    for _, member in ipairs(page) do
      if not give(parse(member:sub(7))) then return false end
    end
    if #page < step then return true end
    low, step = '(' .. page[#page], math.min(2 * step, 512)
  end
end

-- Adds members, or removes them, 500 in a command.
local function change(command, all)
  local chunk = 500
  for i = 1, #all, chunk do
    local some = {}
    for j = i, math.min(i + chunk - 1, #all) do
      if command == 'ZADD' then table.insert(some, 0) end
      table.insert(some, all[j])
    end
    redis.call(command, KEYS[1], unpack(some))
  end
end

-- Returns the member that says that a call has had its effect.
local function done(call, now, ...)
  return table.concat({'done', call, stamp(now), ...}, '\0')
end
