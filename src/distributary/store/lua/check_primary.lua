-- Runs in a transaction whose replies are valid only on a primary. Returns 1, or an error reply.
#include primary.lua
return replica() or 1
