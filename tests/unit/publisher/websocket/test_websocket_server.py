"""What is agreed on when a WebSocket is opened."""

from __future__ import annotations

import pytest

from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.json_codec import JSON, JSON_DEFLATE
from distributary.publisher.codec.protobuf_codec import PROTOBUF, PROTOBUF_DEFLATE
from distributary.publisher.websocket.websocket_server import DEFLATE, agree


@pytest.mark.parametrize(
    ("protocols", "query", "codec", "answered"),
    [
        ("", "", JSON, None),
        ("", "format=json", JSON, None),
        ("", "format=protobuf", PROTOBUF, None),
        ("", "a=1&cf_protocol=protobuf", PROTOBUF, None),
        ("centrifuge-json", "", JSON, "centrifuge-json"),
        ("centrifuge-json", "format=protobuf", JSON, "centrifuge-json"),
        ("centrifuge-protobuf", "", PROTOBUF, "centrifuge-protobuf"),
        ("chat, centrifuge-protobuf", "", PROTOBUF, "centrifuge-protobuf"),
        ("centrifuge-protobuf,centrifuge-json", "", PROTOBUF, "centrifuge-protobuf"),
        ("chat", "", JSON, None),
    ],
)
def test_handshake_chooses_the_format(protocols: str, query: str, codec: Codec, answered: str | None) -> None:
    assert agree(protocols, query, "permessage-deflate", compression=False) == (
        codec,
        {} if answered is None else {"Sec-WebSocket-Protocol": answered},
    )


@pytest.mark.parametrize(
    ("offer", "taken"),
    [
        ("permessage-deflate", True),
        ("permessage-deflate; client_max_window_bits", True),
        ("permessage-deflate; client_max_window_bits=12; server_no_context_takeover", True),
        ('permessage-deflate; server_max_window_bits="15"', True),
        ("permessage-deflate; server_max_window_bits=10, permessage-deflate", True),
        ("permessage-deflate; server_max_window_bits=10", False),
        ("permessage-deflate; server_max_window_bits", False),
        ("permessage-deflate; client_max_window_bits=7", False),
        ("permessage-deflate; client_max_window_bits; client_max_window_bits", False),
        ("permessage-deflate; server_no_context_takeover=1", False),
        ("permessage-deflate; strange", False),
        ("x-webkit-deflate-frame", False),
        ("", False),
    ],
)
def test_handshake_chooses_compression(offer: str, taken: bool) -> None:
    for query, plain, compressed in (
        ("", JSON, JSON_DEFLATE),
        ("format=protobuf", PROTOBUF, PROTOBUF_DEFLATE),
    ):
        codec, headers = agree("", query, offer, compression=True)
        assert codec is (compressed if taken else plain)
        assert headers == ({"Sec-WebSocket-Extensions": DEFLATE} if taken else {})


def test_every_kind_of_frame_has_its_own_key() -> None:
    assert len({codec.key for codec in (JSON, JSON_DEFLATE, PROTOBUF, PROTOBUF_DEFLATE)}) == 4
