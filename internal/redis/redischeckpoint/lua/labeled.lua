-- Judges an entry of a label. KEYS: session. ARGV: its place, its token, 1 for a session that owes, 1 to skip a session
-- that is held back, and for how many microseconds more a session has to be held back or 0.
-- An owner enters a label before the Append that relies on the entry. A token has the epoch of the latest owner that may
-- do so. So a script drops no entry under a living head but that of an owner before.

local head, wrong = hmget(KEYS[1], 'turn', 'owed', 'retry', 'epoch', 'labels')
if wrong then return {'INVALID', 'head: ' .. wrong} end
local turn, retry, epoch = tonumber(head[1]), tonumber(head[3] or '0'), tonumber(head[4])
if not turn then
  if redis.call('EXISTS', KEYS[1]) == 1 then return {'INVALID', 'head without a turn number'} end
  return {'DROP'}
end
if not retry then return {'INVALID', 'head with retry ' .. head[3]} end
if not epoch then return {'INVALID', 'head with epoch ' .. (head[4] or 'missing')} end
local has = places(head[5])
if not has then return {'INVALID', 'head with labels that no store wrote'} end
if not has[ARGV[1]] then
  local entered = tonumber(ARGV[2]:match('^%d+'))
  return {(not entered or entered < epoch) and 'DROP' or 'SKIP'}
end
if turn < 0 then return {'SKIP'} end
local held, least = retry - clock(), tonumber(ARGV[5])
if ARGV[3] == '1' and (not head[2] or ARGV[4] == '1' and held > 0 or least > 0 and held <= least) then
  return {'SKIP'}
end
return {'LIST'}
