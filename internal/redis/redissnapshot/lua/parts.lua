-- Precedes the scripts that write or tell the parts of a run. Each part is a field. No other field begins like this.

local prefix = 'part:'

-- Returns the fields of all parts.
local function parts()
  local fields = {}
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if field:sub(1, #prefix) == prefix then table.insert(fields, field) end
  end
  return fields
end

-- Writes the parts that ARGV has from first on, each as name and document.
local function add(first)
  local fields = {}
  for i = first, #ARGV, 2 do
    table.insert(fields, prefix .. ARGV[i])
    table.insert(fields, ARGV[i + 1])
  end
  inChunks('HSET', fields)
end

