-- KEYS: the transcript that gets the entries. ARGV: call, when it began or '', behind which number a new transcript
-- begins or '', then of each entry its numbers and its body, in their order.
-- Returns OK; TAKEN; BEGIN and the time, to bring back; NEW, if that number is needed.

local call, began, base = ARGV[1], ARGV[2], ARGV[3]

local barred, fault = load()
if fault then return {'INVALID', fault} end
local now = clock()
if find('done', call) then return {'OK'} end
if late(began, now) or tonumber(began) <= barred then return {'BEGIN', decimal(now)} end

local added, before = {done(call, now)}, last(newest)
if before and before.bad then return {'INVALID', 'the newest entry is no entry'} end
if not before and not find('raised') then
  if base == '' then return {'NEW', decimal(now)} end
  if tonumber(base) > 0 then table.insert(added, 'raised\0' .. stamp(base)) end
end
for i = 4, #ARGV, 3 do
  local from, through, body = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2]
  local there
  if before and from <= before.through then
    each(from, through, function(e)
      there = e
      return false
    end)
  end
  if not there then
    local key = stamp(from)
    table.insert(added, table.concat({'entry', key, decimal(through), stamp(now), call, ''}, '\0'))
    table.insert(added, table.concat({'body', key, body}, '\0'))
  elseif there.bad or there.from ~= from or there.through ~= through or find('body', there.key) ~= body then
    return {'TAKEN'}
  end
end
if #added == 1 then pass() end
change('ZADD', added)
redis.call('PERSIST', KEYS[1])
return {'OK'}
