"""The socket.io gateway: each of its clients has a connection of its own to a publisher."""
