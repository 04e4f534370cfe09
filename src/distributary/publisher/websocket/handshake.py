"""What a client and the publisher agree on when a WebSocket is opened: the format, and compression. Pure."""

from __future__ import annotations

from urllib.parse import parse_qs

from distributary.publisher.codec.codec import Wire
from distributary.publisher.codec.json_codec import JSON, JSON_DEFLATE
from distributary.publisher.codec.protobuf_codec import PROTOBUF, PROTOBUF_DEFLATE

DEFLATE = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
"""The answer to an offer of compression: every message stands alone, in both directions."""


def agree(protocols: str, query: str, extensions: str, *, compression: bool) -> tuple[Wire, dict[str, str]]:
    """Choose a format and the headers of the answer.

    ``protocols`` and ``extensions`` are the headers Sec-WebSocket-Protocol and -Extensions, '' when not
    there. Without a known subprotocol the address may say ``format=protobuf``; else it is JSON.
    """
    offered = [name.strip() for name in protocols.split(",")]
    chosen = next((name for name in offered if name in (JSON.subprotocol, PROTOBUF.subprotocol)), "")
    asked = parse_qs(query)
    binary = chosen == PROTOBUF.subprotocol or (
        not chosen and "protobuf" in (*asked.get("format", ()), *asked.get("cf_protocol", ()))
    )
    compress = compression and any(_acceptable(offer) for offer in extensions.split(","))
    headers: dict[str, str] = {}
    if chosen:
        headers["Sec-WebSocket-Protocol"] = chosen
    if compress:
        headers["Sec-WebSocket-Extensions"] = DEFLATE
        return (PROTOBUF_DEFLATE if binary else JSON_DEFLATE), headers
    return (PROTOBUF if binary else JSON), headers


def _acceptable(offer: str) -> bool:
    """Say whether an offer can be taken. A smaller window for us cannot: all connections share our bytes."""
    name, *parameters = (part.strip() for part in offer.split(";"))
    if name != "permessage-deflate":
        return False
    given = [
        (key.strip(), value.strip().strip('"')) for key, _, value in (p.partition("=") for p in parameters)
    ]
    seen = {key for key, _ in given}
    if len(seen) != len(given):
        return False
    return all(
        (key in ("server_no_context_takeover", "client_no_context_takeover") and not value)
        or (key == "client_max_window_bits" and value in ("", *map(str, range(8, 16))))
        or (key == "server_max_window_bits" and value == "15")
        for key, value in given
    )
