-- Precedes every script.

-- Microseconds since 1970.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- They have more digits than Lua prints by itself.
local function decimal(n)
  return string.format('%.0f', n)
end

