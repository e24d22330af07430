-- KEYS: the beats of all processes, a hash. ARGV: a process, which is forgotten.
-- Returns OK.

redis.call('HDEL', KEYS[1], ARGV[1])
return {'OK'}
