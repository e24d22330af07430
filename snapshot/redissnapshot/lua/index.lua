-- Precedes every script that writes the index.

local now = clock()

-- An entry was barred at a time that a script on its session told. Later than this it may be in use again.
local function still(barred)
  return now - barred < 20 * 60 * 1000000
end

-- Removes entries: of each its session, token, and when it was barred.
local function drop(first)
  for i = first, #ARGV, 3 do
    if still(ARGV[i + 2]) then redis.call('ZREM', KEYS[1], member(ARGV[i], ARGV[i + 1])) end
  end
end

