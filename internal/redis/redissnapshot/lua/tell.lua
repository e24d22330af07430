-- Precedes the scripts that tell a run.

-- The documents of a run, and other fields that may be as large.
local documents = {request = true, base = true, error = true, payload = true}

-- Returns a reply that tells what a caller may see of the run, and, in microseconds, for how long it is not due and how
-- long ago it began. The fields in without, if it is given, are not read.
local function tell(verdict, without)
  without = without or {}
  local shown = {
    'id', 'request', 'turn', 'attempt', 'base', 'status', 'seq', 'epoch', 'nonce', 'error', 'payload', 'started', 'saved',
    'not_before',
  }
  local asked = {}
  for i, name in ipairs(shown) do asked[i] = without[name] and 'id' or name end
  local reply = redis.call('HMGET', KEYS[1], unpack(asked))
  for i, name in ipairs(shown) do
    if not reply[i] then return {'INVALID', 'run without ' .. name, reply[1] or '', reply[6] or ''} end
    if without[name] then reply[i] = '' end
  end
  local now, due, started = clock(), tonumber(reply[#shown]), tonumber(reply[#shown - 2])
  table.insert(reply, due and decimal(math.max(0, due - now)) or '0')
  table.insert(reply, started and decimal(math.max(0, now - started)) or '0')
  table.insert(reply, 1, verdict)
  return reply
end
