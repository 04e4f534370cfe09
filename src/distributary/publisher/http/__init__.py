"""HTTP streams: server-sent events and lines of JSON."""
