-- ARGV: pairs of session and token.

local gone = {}
for i = 1, #ARGV, 2 do table.insert(gone, member(ARGV[i], ARGV[i + 1])) end
-- One command removes all entries: with the last member the key goes, and with the key its slot may go.
redis.call('ZREM', KEYS[1], unpack(gone))
return {'OK'}
