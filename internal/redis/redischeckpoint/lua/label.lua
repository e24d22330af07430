-- Enters the names of a session's labels. ARGV: epoch, random text of the call, then pairs of name and token to replace or
-- ''. Returns OK and the tokens of the names. If a name has another token, returns OTHER and the tokens that they have,
-- and writes nothing.
-- A token is an epoch and the random text. The epoch is the highest of all owners whose entry the entry has replaced.

local reply, other = {'OK'}, false
for i = 3, #ARGV, 2 do
  local token = tokenOf(ARGV[i]) or ''
  table.insert(reply, token)
  local epoch, random = token:match('^(%d+):(.*)$')
  if random ~= ARGV[2] then
    other = other or token ~= ARGV[i + 1]
    if not epoch or tonumber(epoch) < tonumber(ARGV[1]) then epoch = ARGV[1] end
    ARGV[i + 1] = epoch .. ':' .. ARGV[2]
  else
    ARGV[i + 1] = token
  end
end
if other then
  reply[1] = 'OTHER'
  return reply
end
for i = 3, #ARGV, 2 do
  local was, token = reply[(i + 1) / 2], ARGV[i + 1]
  if was ~= token then
    redis.call('ZADD', KEYS[1], 0, member(ARGV[i], token))
    if was ~= '' then redis.call('ZREM', KEYS[1], member(ARGV[i], was)) end
    reply[(i + 1) / 2] = token
  end
end
return reply
