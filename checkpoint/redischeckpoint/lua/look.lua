-- What becomes of an index entry. KEYS: head. ARGV: 1 for an entry of those that owe, its token.
-- Whoever deletes an entry under a living head must retire its token first, so that no Append relies on it any more.

local head = redis.pcall('HMGET', KEYS[1], 'turn', 'owed', 'owing', 'retired')
if head.err then return {'INVALID', 'head: ' .. head.err} end
local turn = tonumber(head[1])
if not turn then
  if redis.call('EXISTS', KEYS[1]) == 1 then return {'INVALID', 'head without a turn number'} end
  return {'DROP'}
end
if ARGV[1] == '0' then return {turn < 0 and 'SKIP' or 'LIST'} end
if head[2] then return {'LIST'} end
if head[3] == ARGV[2] then
  redis.call('HSET', KEYS[1], 'retired', ARGV[2])
  redis.call('HDEL', KEYS[1], 'owing')
  return {'DROP'}
end
return {head[4] == ARGV[2] and 'DROP' or 'SKIP'}
