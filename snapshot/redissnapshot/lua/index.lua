-- Precedes every script that writes the index.

local now = clock()

-- An entry was barred at a time that a script on its session told. Later than this it may be in use again.
local function still(barred)
  return now - barred < 20 * 60 * 1000000
end

-- Removes entries, of each of which ARGV has its session, token, and when it was barred, but not the member that stays. It
-- is the last command of a script: with the last member the key goes, and with the key its slot may.
local function drop(first, stays)
  local gone = {}
  for i = first, #ARGV, 3 do
    local entry = member(ARGV[i], ARGV[i + 1])
    if still(ARGV[i + 2]) and entry ~= stays then table.insert(gone, entry) end
  end
  if #gone > 0 then redis.call('ZREM', KEYS[1], unpack(gone)) end
end

