-- KEYS: the beats of all processes, a hash. ARGV: a process, or '' to look; how long a silent process stays, in ms.
-- Returns OK, then each process and the number of its beats.

local micros = clock()
local now = math.floor(micros / 1000)
local silence = tonumber(ARGV[2])
if ARGV[1] ~= '' then
  local stored = redis.call('HGET', KEYS[1], ARGV[1])
  local beats = stored and tonumber(stored:match('^(%d+) ')) or micros -- another number after each rest
  redis.call('HSET', KEYS[1], ARGV[1], decimal(beats + 1) .. ' ' .. decimal(now))
  redis.call('PEXPIREAT', KEYS[1], decimal(now + silence))
end
local reply = {'OK'}
for _, process in ipairs(redis.call('HKEYS', KEYS[1])) do
  local beats, at = redis.call('HGET', KEYS[1], process):match('^(%d+) (%d+)$')
  if at and now - at <= silence then
    table.insert(reply, process)
    table.insert(reply, beats)
  elseif ARGV[1] ~= '' then
    redis.call('HDEL', KEYS[1], process)
  end
end
return reply
