-- Goes with commands of one transaction, whose answers count only on a primary. Returns 1, or an error reply.
#include primary.lua
return replica() or 1
