-- Precedes every script that writes the index.

local now = clock()

-- Returns whether an entry, which a script on its session barred at that time, is still barred. After 20 minutes the
-- entry may be in use again.
local function still(barred)
  return now - barred < 20 * 60 * 1000000
end

-- Removes entries except the member that stays. ARGV has the session of each entry, its token, and when it was barred.
-- The removal is the last command of a script: with the last member the key goes, and with the key its slot may go.
local function drop(first, stays)
  local gone = {}
  for i = first, #ARGV, 3 do
    local entry = member(ARGV[i], ARGV[i + 1])
    if still(ARGV[i + 2]) and entry ~= stays then table.insert(gone, entry) end
  end
  if #gone > 0 then redis.call('ZREM', KEYS[1], unpack(gone)) end
end

