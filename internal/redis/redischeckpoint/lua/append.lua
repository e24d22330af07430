-- ARGV: epoch, nonce, turn, run id, request id, rest (details), state, payload, keep, owes, release, owing entry,
-- idle in ms.

local epoch, nonce, n, run, request, rest, state, payload, keep, owes, release, token, idle = unpack(ARGV)

local head, fault = load()
if fault then return {'INVALID', fault} end
if not head then return {'FENCED'} end
local turn = tonumber(n)
local ours = decimal(head.epoch) == epoch and head.nonce == nonce
if not ours or turn ~= head.turn + 1 then
  if kept(head, 'run:' .. run) then return {'KNOWN'} end
  return {ours and 'CONFLICT' or 'FENCED'}
end
if redis.call('HEXISTS', KEYS[1], n) == 1 then
  return {'INVALID', 'turn ' .. n .. ' is stored, and the head says that it is not settled'}
end
if owes == '1' and not head.owed then
  if not head.owing then
    if token == '' then return {'INDEX'} end
    head.owing = token
  end
  head.owed = turn
end

local now = clock()
redis.call('HSET', KEYS[1], n, rest, n .. ':at', decimal(now), n .. ':run', run, n .. ':req', request,
  n .. ':state', state, n .. ':payload', payload, 'run:' .. run, n)
if request ~= '' then redis.call('HSET', KEYS[1], 'req:' .. request, n) end

local first = math.max(head.first, math.min(turn - tonumber(keep) + 1, head.owed or turn + 1))
local cleared = head.cleared or head.first
local upTo = math.min(first, cleared + atOnce)
for i = cleared, upTo - 1 do
  local old = decimal(i)
  local ids = redis.call('HMGET', KEYS[1], old .. ':run', old .. ':req')
  local run, request = 'run:' .. (ids[1] or ''), 'req:' .. (ids[2] or '')
  local turns = redis.call('HMGET', KEYS[1], run, request)
  -- If a later turn has the same id, the id points to the later turn, and stays.
  redis.call('HDEL', KEYS[1], old, old .. ':at', old .. ':run', old .. ':req', old .. ':state', old .. ':payload',
    turns[1] == old and run or old, turns[2] == old and request or old)
end

local moved = {'turn', n, 'first', decimal(first), 'cleared', decimal(upTo)}
local function move(name, value)
  table.insert(moved, name)
  table.insert(moved, value)
end
if head.owed then
  move('owed', decimal(head.owed))
  move('owing', head.owing)
end
if release == '1' then
  head.lease = now
  move('nonce', '')
  move('lease', decimal(now))
end
redis.call('HSET', KEYS[1], unpack(moved))
head.turn = turn
expire(head, now, tonumber(idle))
return {'OK'}
