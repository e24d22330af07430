-- KEYS: the watcher. ARGV: a process, for how long it is to be the watcher, in ms.
-- Returns OK, and for how much longer another process is the watcher, in ms; 0 if the process is the watcher.

local watcher = redis.call('GET', KEYS[1])
if watcher and watcher ~= ARGV[1] then return {'OK', decimal(math.max(1, redis.call('PTTL', KEYS[1])))} end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return {'OK', '0'}
