"""Kafka over HTTP beside the flow: a schema registry, the REST proxy's three versions, and topics as streams.

`schemas/` keeps schemas in a compacted topic, `proxy/` produces and consumes by plain requests, `stream/`
pushes a topic's records. Each has its pure part (compatibility, bodies, positions) apart from its I/O.
"""
