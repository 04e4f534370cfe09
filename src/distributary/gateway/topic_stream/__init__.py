"""A topic's records as server-sent events or WebSocket messages, from a position that a client can name."""
