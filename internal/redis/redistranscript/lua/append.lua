-- ARGV: call, when it began or '', id, how many messages, body, behind which number a new transcript begins or ''.
-- Returns OK, the numbers of the entry, the time; BEGIN and the time, to bring back; NEW, if that number is needed.

local call, began, id, count, body, base = unpack(ARGV)

local barred, fault = load()
if fault then return {'INVALID', fault} end
local now = clock()
local key = find('id', id)
if key then
  local e = parse(key .. '\0' .. (find('entry', key) or ''))
  if e.bad then return {'INVALID', 'entry ' .. key .. ' is no entry'} end
  return {'OK', decimal(e.from), decimal(e.through), decimal(now)}
end
local from, through = (find('done', call) or ''):match('^%d+%z(%d+)%z(%d+)$')
if from then return {'OK', decimal(tonumber(from)), through, decimal(now)} end
if late(began, now) or tonumber(began) <= barred then return {'BEGIN', decimal(now)} end
local before = last(newest)
if before and before.bad then return {'INVALID', 'the newest entry is no entry'} end
local raised = find('raised')
if not before and not raised and base == '' then return {'NEW', decimal(now)} end
from = math.max(before and before.through or 0, tonumber(raised) or 0, tonumber(base) or 0) + 1
through = from + count - 1
key = stamp(from)
change('ZADD', {
  table.concat({'entry', key, decimal(through), stamp(now), call, id}, '\0'),
  table.concat({'body', key, body}, '\0'),
  table.concat({'id', id, key}, '\0')
})
redis.call('PERSIST', KEYS[1])
return {'OK', decimal(from), decimal(through), decimal(now)}
