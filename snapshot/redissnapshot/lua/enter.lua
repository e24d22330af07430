-- ARGV: session, token for a new entry, token that is barred or '', when it was barred, then entries to be dropped.
-- OK, the token of the session's entry, the time

drop(5)
local token = redis.call('HGET', KEYS[2], ARGV[1])
if not token or token == ARGV[3] and still(ARGV[4]) then
  token = ARGV[2]
  redis.call('ZADD', KEYS[1], 0, ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], token)
end
return {'OK', token, decimal(now)}
