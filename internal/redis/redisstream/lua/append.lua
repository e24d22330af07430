-- ARGV: call, run, epoch, status, how many chunks, their array, how many are kept, for how many ms, + or - for the channel.
-- Returns OK or OLD, and the number of the last chunk. OLD has changed nothing: another owner appends, or this is a copy.

local call, run, epoch, status, count, data, keep, ttl, sign = unpack(ARGV)
count, keep = tonumber(count), tonumber(keep)

local head, fault = load()
if fault then return {'INVALID', fault} end
if head and (less(epoch, head.epoch) or head.calls:find(call, 1, true)) then return {'OLD', decimal(head.last)} end
local before = head and head.last or 0
local last, first, mark = before + count, head and head.first or 1, 1
local start = head and head.run == run and head.start or before + 1
if count > 0 then
  redis.call('XADD', KEYS[1], decimal(last) .. '-0', 'from', decimal(before + 1), 'run', run, 'data', data)
elseif head then
  mark = head.mark + 1
end
local cut = last - first + 1 >= 2 * keep
if cut then first = last - keep + 1 end
-- The last 32 calls. A copy of an earlier one would have to be later than all of them.
local calls = (call .. (head and head.calls or '')):sub(1, 32 * #call)
redis.call('XADD', KEYS[1], decimal(last) .. '-' .. decimal(mark), 'epoch', epoch, 'status', status, 'run', run,
  'start', decimal(start), 'first', decimal(first), 'calls', calls,
  'life', head and (head.life or '') or call) -- the first call of the session's life
if head then redis.call('XDEL', KEYS[1], head.id) end
if cut then redis.call('XTRIM', KEYS[1], 'MINID', '=', decimal(first) .. '-0') end
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('PUBLISH', KEYS[1], sign .. decimal(last))
return {'OK', decimal(last)}
