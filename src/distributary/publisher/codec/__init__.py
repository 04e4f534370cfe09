"""The client protocol: commands, replies and pushes, in JSON and in Protobuf."""
