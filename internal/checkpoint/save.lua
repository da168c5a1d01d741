-- Stores a checkpoint in place of the one that was compared with it, or of none: see location.mayStore.
--
-- KEYS[1] the key
-- ARGV[1] the checkpoint in its stored form
-- ARGV[2] the value that it may replace
--
-- Answers 1 when it was stored, otherwise the value that is stored.
local stored = redis.call('GET', KEYS[1])
if stored and stored ~= ARGV[2] then
  return stored
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
