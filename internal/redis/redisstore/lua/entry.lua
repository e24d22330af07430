-- Precedes every script that looks up or writes entries of an index. KEYS: the index.
-- It is one sorted set in byte order. A member is a session, a zero byte, which no session has, and the entry's token.

local function member(session, token)
  return session .. '\0' .. token
end

-- Returns the token of the session's entry, or nil.
local function tokenOf(session)
  local found = redis.call('ZRANGE', KEYS[1], '[' .. session .. '\0', '(' .. session .. '\1', 'BYLEX', 'LIMIT', 0, 1)
  return found[1] and found[1]:sub(#session + 2)
end

