-- KEYS: index, its tokens. ARGV: session, token that is to be replaced or '', token.

local token = redis.call('HGET', KEYS[2], ARGV[1]) or ''
if token == ARGV[3] then return {'OK'} end
if token ~= ARGV[2] then return {'OTHER', token} end
redis.call('ZADD', KEYS[1], 0, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return {'OK'}
