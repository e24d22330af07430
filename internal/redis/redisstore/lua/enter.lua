-- ARGV: session, a barred token or '', when the token was barred, the highest barred token, then the entries to drop.
-- Returns OK, the token of the session's entry, the time.

local session = ARGV[1]
local token = tokenOf(session)
local stale = token and token == ARGV[2] and still(ARGV[3])
for i = 5, #ARGV, 3 do
  stale = stale or ARGV[i] == session and ARGV[i + 1] == token and still(ARGV[i + 2])
end
if not token or stale then
  local old = token
  token = decimal(math.max(now, ARGV[4] + 1, (tonumber(old) or 0) + 1))
  redis.call('ZADD', KEYS[1], 0, member(session, token))
  if old then redis.call('ZREM', KEYS[1], member(session, old)) end
end
drop(5, member(session, token))
return {'OK', token, decimal(now)}
