-- A session has its labels in the field labels of its head: label, time or '', and token of the entry, each with a zero
-- byte behind it. Label, zero byte and time are a place. A label with a time has two places: one is without the time.

-- Returns the tokens of a session's labels by their places; nil if no store wrote them.
local function places(labels)
  local tokens, size = {}, 0
  for place, token in (labels or ''):gmatch('([^%z]+%z%d*)%z([^%z]+)%z') do
    tokens[place] = token
    size = size + #place + #token + 2
  end
  return size == #(labels or '') and tokens or nil
end

