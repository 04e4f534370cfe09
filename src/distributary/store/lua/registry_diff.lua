-- Returns what changed in the registry since a version.
-- KEYS: 1 view hash, 2 registry log, 3 query texts   ARGV: 1 the version that is known
-- Returns as registry_changes.lua.
#include registry_changes.lua
return registry_changes(KEYS[1], KEYS[2], KEYS[3], ARGV[1])
