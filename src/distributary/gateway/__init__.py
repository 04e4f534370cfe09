"""Kafka over HTTP, beside the flow: a schema registry, a Kafka REST proxy, and topics as streams.

`registry/` keeps schemas in a compacted topic, `rest_proxy/` produces and consumes by plain requests, and
`topic_stream/` pushes a topic's records. In each, what is pure (compatibility, parsing, cursors) is apart
from the I/O.
"""
