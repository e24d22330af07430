-- ARGV: nonce, owner, lease in µs, request id, steal, idle in ms.
-- OK, epoch, born, summarized, delivered, the newest turn, the one that answered the request

local head, fault = load()
if fault then return {'INVALID', fault} end
local now = clock()
if not head then
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
  head = {epoch = now, born = now, turn = -1, first = 0, summarized = 0}
  redis.call('HSET', KEYS[1], 'born', decimal(now), 'turn', '-1', 'first', '0', 'summarized', '0')
elseif head.nonce ~= ARGV[1] then
  if ARGV[5] == '0' and head.lease > now then return {'HELD'} end
  head.epoch = math.max(head.epoch + 1, now)
end
head.lease = now + tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'epoch', decimal(head.epoch), 'nonce', ARGV[1], 'owner', ARGV[2], 'lease', decimal(head.lease))
expire(head, now, tonumber(ARGV[6]))

local reply = {'OK', decimal(head.epoch), decimal(head.born), decimal(head.summarized), decimal(head.owed or head.turn + 1)}
if head.turn >= 0 then add(reply, decimal(head.turn)) end
local answered = ARGV[4] ~= '' and redis.call('HGET', KEYS[4], ARGV[4])
if answered then add(reply, answered) end
return reply
