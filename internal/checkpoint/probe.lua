-- Verifies that the checkpoint's key can be read and written, and changes nothing: the condition of SET
-- never holds, but rights, replica role, memory and min-replicas are checked before it.
local stored = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '', stored and 'NX' or 'XX')
return 1
