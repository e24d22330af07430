-- ARGV: pairs of session and token.

for i = 1, #ARGV, 2 do
  redis.call('ZREM', KEYS[1], member(ARGV[i], ARGV[i + 1]))
end
return {'OK'}
