-- Judges an index entry. KEYS: session. ARGV: 1 for an entry of the owing sessions, its token, 1 to skip a session that
-- is held back, and for how many microseconds more a session has to be held back or 0.
-- To delete an entry under a living head, a script must retire its token first. Then no Append relies on the entry any
-- more.

local head, wrong = hmget(KEYS[1], 'turn', 'owed', 'owing', 'retired', 'retry')
if wrong then return {'INVALID', 'head: ' .. wrong} end
local turn, retry = tonumber(head[1]), tonumber(head[5] or '0')
if not turn then
  if redis.call('EXISTS', KEYS[1]) == 1 then return {'INVALID', 'head without a turn number'} end
  return {'DROP'}
end
if not retry then return {'INVALID', 'head with retry ' .. head[5]} end
if ARGV[1] == '0' then return {turn < 0 and 'SKIP' or 'LIST'} end
if head[2] then
  local held, least = retry - clock(), tonumber(ARGV[4])
  return {(ARGV[3] == '1' and held > 0 or least > 0 and held <= least) and 'SKIP' or 'LIST'}
end
if head[3] == ARGV[2] then
  local refused = redis.pcall('HDEL', KEYS[1], 'owing') -- first, so that it passes at maxmemory
  if type(refused) == 'table' then return {'SKIP'} end -- a server that takes no write can be read
  redis.call('HSET', KEYS[1], 'retired', ARGV[2])
  return {'DROP'}
end
return {head[4] == ARGV[2] and 'DROP' or 'SKIP'}
