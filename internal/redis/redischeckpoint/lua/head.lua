-- Returns OK alone if there is no session, else OK, epoch, born, turn, first, summarized, delivered, failed, how many µs
-- a live lease has left or 0, its owner or ''.

local head, fault = load()
if not head and not fault then fault = headless() end
if fault then return {'INVALID', fault} end
if not head then return {'OK'} end
local left = head.nonce ~= '' and math.max(0, head.lease - clock()) or 0
return {
  'OK', decimal(head.epoch), decimal(head.born), decimal(head.turn), decimal(head.first), decimal(head.summarized),
  decimal(head.owed or head.turn + 1), decimal(head.failed or 0), decimal(left),
  left > 0 and redis.call('HGET', KEYS[1], 'owner') or '',
}
