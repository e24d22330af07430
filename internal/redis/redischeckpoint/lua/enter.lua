-- ARGV: session, token to replace or '', new token.

local token = tokenOf(ARGV[1]) or ''
if token == ARGV[3] then return {'OK'} end
if token ~= ARGV[2] then return {'OTHER', token} end
redis.call('ZADD', KEYS[1], 0, member(ARGV[1], ARGV[3]))
if token ~= '' then redis.call('ZREM', KEYS[1], member(ARGV[1], token)) end
return {'OK'}
