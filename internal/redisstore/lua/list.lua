-- KEYS: index, its tokens. ARGV: lower and upper bound, how many.
-- OK, then of each entry: session, token

local reply = {'OK'}
for _, session in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[3])) do
  table.insert(reply, session)
  table.insert(reply, redis.call('HGET', KEYS[2], session) or '')
end
return reply
