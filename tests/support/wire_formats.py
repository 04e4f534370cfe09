"""Both wire formats as a client uses them: commands from dicts, dicts from replies, by other libraries."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from centrifuge.protocol import client_pb2
from google.protobuf import json_format, message  # type: ignore[import-untyped]

from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.codec.protobuf_codec import PROTOBUF

CODECS: tuple[Codec, ...] = (JSON, PROTOBUF)
PROTO: Any = client_pb2
UNREADABLE: type[Exception] = message.DecodeError
UNENCODABLE: type[Exception] = json_format.ParseError


def write(codec: Codec, *commands: dict[str, Any]) -> bytes:
    """Write commands into one message."""
    if codec is JSON:
        return b"\n".join(json.dumps(command).encode() for command in commands)
    return b"".join(_delimited(_parsed(command).SerializeToString()) for command in commands)


def read(codec: Codec, payload: bytes) -> list[dict[str, Any]]:
    """Read replies; numbers are numbers and data is decoded, whatever the format."""
    if codec is JSON:
        return [json.loads(line) for line in payload.split(b"\n")]
    return [_plain(PROTO.Reply.FromString(one)) for one in split(payload)]


def split(payload: bytes) -> Iterable[bytes]:
    """Take delimited messages apart."""
    at = 0
    while at < len(payload):
        size = shift = 0
        while True:
            byte = payload[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        assert at + size <= len(payload)
        yield payload[at : at + size]
        at += size


def _parsed(command: dict[str, Any]) -> Any:
    copied = json.loads(json.dumps(command))
    for body in copied.values():
        if isinstance(body, dict) and "data" in body:
            body["data"] = base64.b64encode(json.dumps(body["data"]).encode()).decode()
    return json_format.ParseDict(copied, PROTO.Command())


def _delimited(one: bytes) -> bytes:
    size, out = len(one), bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes([*out, size]) + one


def _plain(reply: Any) -> dict[str, Any]:
    found: dict[str, Any] = _decoded(json_format.MessageToDict(reply, preserving_proto_field_name=True))
    return found


def _decoded(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _decoded(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    if name == "data":
        return json.loads(base64.b64decode(value))
    return int(value) if name == "offset" else value
