-- KEYS: index, its tokens. ARGV: pairs of session and token.

for i = 1, #ARGV, 2 do
  if (redis.call('HGET', KEYS[2], ARGV[i]) or '') == ARGV[i + 1] then
    redis.call('ZREM', KEYS[1], ARGV[i])
    redis.call('HDEL', KEYS[2], ARGV[i])
  end
end
return {'OK'}
