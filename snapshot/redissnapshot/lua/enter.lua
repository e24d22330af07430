-- ARGV: session, token that is barred or '', when it was barred, the highest token that is barred, then entries to be dropped.
-- OK, the token of the session's entry, the time

drop(5)
local token = tokenOf(ARGV[1])
if not token or token == ARGV[2] and still(ARGV[3]) then
  local new = decimal(math.max(now, ARGV[4] + 1))
  redis.call('ZADD', KEYS[1], 0, member(ARGV[1], new))
  if token then redis.call('ZREM', KEYS[1], member(ARGV[1], token)) end
  token = new
end
return {'OK', token, decimal(now)}
