"""WebSocket connections: the protocol without I/O, and what carries it out."""
