-- KEYS: index. ARGV: lower bound, upper bound, how many entries.
-- Returns OK, then of each entry: session, token.

local reply = {'OK'}
for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[3])) do
  local zero = entry:find('\0', 1, true) or #entry + 1
  table.insert(reply, entry:sub(1, zero - 1))
  table.insert(reply, entry:sub(zero + 1))
end
return reply
