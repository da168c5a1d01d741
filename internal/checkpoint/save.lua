-- Stores a checkpoint unless a newer one, or another source's, is there: the rule that the package
-- comment states and location.refuse states in Go.
--
-- KEYS[1] the key
-- ARGV[1] the checkpoint in its stored form
-- ARGV[2] for a claim: the generation and the sequence of the checkpoint that it replaces, with a space between; else ''
-- ARGV[3] a value that may be replaced whatever it is, once this script has refused to; see mayReplace
--
-- Answers {1} when it was stored, {0, stored} when it was refused.

-- Numbers of 64 bits come as decimal strings without leading zeros: a longer one is greater, and of two
-- as long the later one in order.
local function greater(a, b)
  if #a ~= #b then
    return #a > #b
  end
  return a > b
end

-- The mark of a reset belongs to no source: only its numbers count.
local function of_same_source(next, old)
  if old.reset == true then
    return true
  end
  for _, field in ipairs({'system_id', 'database', 'slot'}) do
    if old.source[field] ~= next.source[field] then
      return false
    end
  end
  return true
end

local function may_replace(next, old)
  if type(old) ~= 'table' or old.version ~= next.version or type(old.source) ~= 'table' then
    return false
  end
  if not of_same_source(next, old) then
    return false
  end
  if type(old.generation) ~= 'string' or type(old.sequence) ~= 'string' then
    return false
  end
  return greater(next.generation, old.generation)
    or (next.generation == old.generation and greater(next.sequence, old.sequence))
end

local stored = redis.call('GET', KEYS[1])
if stored and stored ~= ARGV[1] and stored ~= ARGV[3] then
  local readable, old = pcall(cjson.decode, stored)
  if not readable or not may_replace(cjson.decode(ARGV[1]), old) then
    return {0, stored}
  end
  if ARGV[2] ~= '' and ARGV[2] ~= old.generation .. ' ' .. old.sequence then
    return {0, stored}
  end
end
redis.call('SET', KEYS[1], ARGV[1])
return {1}
