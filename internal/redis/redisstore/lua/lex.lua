-- Precedes every script on a key of a session that is a sorted set in byte order. KEYS: the set. All that belongs together
-- has one key, so that a script finds all of it or nothing while a cluster moves its slot. For the same reason no script
-- removes the key and writes it again. No name has a zero byte, so one divides the parts of a member.

-- Returns the members that begin with the parts, without them: at most so many, from an offset on.
local function members(offset, most, ...)
  local start = table.concat({...}, '\0') .. '\0'
  local found = redis.call('ZRANGE', KEYS[1], '[' .. start, '[' .. start .. '\255', 'BYLEX', 'LIMIT', offset, most)
  for i, member in ipairs(found) do found[i] = member:sub(#start + 1) end
  return found
end

-- Returns the only member that begins with the parts, without them; nil if there is none.
local function find(...)
  return members(0, 1, ...)[1]
end

-- At maxmemory Redis refuses a command only until the script has made its first write, even a write without effect. A
-- script that calls pass first is not refused.
local function pass()
  redis.call('ZREM', KEYS[1], '')
end

-- Returns a time in µs so that later ones are greater as text.
local function stamp(time)
  return string.format('%016.0f', time)
end

