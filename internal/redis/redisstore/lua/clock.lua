-- Precedes every script.

-- Microseconds since 1970.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- The default format of Lua has too few digits for these numbers.
local function decimal(n)
  return string.format('%.0f', n)
end

-- Returns fields of a hash. If the key is no hash, returns nil and the error.
local function hmget(key, ...)
  local values = redis.pcall('HMGET', key, ...)
  if not values.err then return values end
  if not values.err:find('WRONGTYPE', 1, true) then error(values.err) end
  return nil, values.err
end

