-- ARGV: epoch, nonce. A copy of this call that comes late spares the next life of the session, unless that life is
-- damaged. Returns OK, then the places of the labels, and before each the token of its entry.

local head, fault = load()
if head and not fault and (decimal(head.epoch) ~= ARGV[1] or head.nonce ~= ARGV[2]) then return {'FENCED'} end
local reply = {'OK'}
local labels = hmget(KEYS[1], 'labels')
for place, token in pairs(labels and places(labels[1]) or {}) do
  table.insert(reply, token)
  table.insert(reply, place)
end
redis.call('UNLINK', KEYS[1])
return reply
