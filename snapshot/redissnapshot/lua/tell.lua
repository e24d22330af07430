-- Precedes the scripts that tell a run.

-- Returns a reply that tells what a caller may see of the run, and for how long it is not due, in microseconds.
local function tell(verdict)
  local shown = {
    'id', 'request', 'turn', 'attempt', 'base', 'status', 'seq', 'epoch', 'nonce', 'error', 'payload', 'started', 'saved',
    'not_before',
  }
  local reply = redis.call('HMGET', KEYS[1], unpack(shown))
  for i, name in ipairs(shown) do
    if not reply[i] then return {'INVALID', 'run without ' .. name, reply[1] or '', reply[6] or ''} end
  end
  local due = tonumber(reply[#shown])
  table.insert(reply, due and decimal(math.max(0, due - clock())) or '0')
  table.insert(reply, 1, verdict)
  return reply
end

