"""One WebSocket connection: its protocol, its channels, what a client sends."""
