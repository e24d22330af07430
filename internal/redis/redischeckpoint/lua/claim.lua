-- ARGV: nonce, owner, lease in µs, request id, epoch and nonce of the owner to take over from or '', idle in ms, idle
-- in ms for a session that has settled nothing, the Born of an earlier life or 0.
-- Returns one of:
-- OK, epoch, born, summarized, delivered, failed, the newest turn, the turn that answered the request
-- INVALID, what is wrong, an epoch
-- HELD, owner, epoch, nonce: empty and 0 if the session has no owner

local nonce, owner, lease, request, from, theirs, idle, unsettled, born = unpack(ARGV)

local head, fault = load()
local now = clock()
if not head and not fault then fault = headless() end
if fault then return {'INVALID', fault, decimal(now)} end
local held = head and head.nonce ~= '' and head.lease > now
local function refuse()
  if not held then return {'HELD', '', '0', ''} end
  return {'HELD', redis.call('HGET', KEYS[1], 'owner') or '', decimal(head.epoch), head.nonce}
end

if not head then
  if from ~= '' then return refuse() end
  head = {epoch = now, born = now, turn = -1, first = 0, summarized = 0}
  -- If the server is full, it refuses this write, and the claim with it.
  redis.call('HSET', KEYS[1], 'born', decimal(now), 'turn', '-1', 'first', '0', 'summarized', '0')
elseif head.nonce ~= nonce then
  if from == '' and held then return refuse() end
  if from ~= '' and (decimal(head.epoch) ~= from or head.nonce ~= theirs) then return refuse() end
  head.epoch = math.max(head.epoch + 1, now)
  if head.tried then redis.call('HDEL', KEYS[1], 'tried') end
end
pass()
if born ~= '0' and head.turn < 0 then
  head.born = tonumber(born)
  redis.call('HSET', KEYS[1], 'born', born)
end
head.lease = now + tonumber(lease)
redis.call('HSET', KEYS[1], 'epoch', decimal(head.epoch), 'nonce', nonce, 'owner', owner, 'lease', decimal(head.lease))

local reply = {
  'OK', decimal(head.epoch), decimal(head.born), decimal(head.summarized), decimal(head.owed or head.turn + 1),
  decimal(head.failed or 0),
}
if head.turn >= 0 then add(reply, decimal(head.turn)) end
local answered = request ~= '' and kept(head, 'req:' .. request)
if answered then add(reply, answered) end
-- expire goes last, because a time that has passed by now deletes the session at once.
expire(head, now, tonumber(idle), tonumber(unsettled))
return reply
