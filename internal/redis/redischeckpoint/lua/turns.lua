-- ARGV: turn to start from, how many turns.
-- Returns OK, then the kept turns, downwards.

local head, fault = load()
if fault then return {'INVALID', fault} end
local reply = {'OK'}
if not head then
  fault = headless()
  return fault and {'INVALID', fault} or reply
end
local from = math.min(tonumber(ARGV[1]), head.turn)
for turn = from, math.max(head.first, from - tonumber(ARGV[2]) + 1), -1 do
  add(reply, decimal(turn))
end
return reply
