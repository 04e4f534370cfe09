"""A command: a record on the commands topic, read by every reducer."""

from __future__ import annotations

from typing import Literal

import msgspec


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """A notice about a subscription. ``query`` is the normal form; empty with ``begin`` and ``end``."""

    op: Literal["subscribe", "begin", "end"]
    view: str
    subscription: str
    query: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """Encode a command as the value of a record."""
    return _encoder.encode(command)


def decode_command(value: bytes) -> Command | None:
    """Decode the value of a record; None if it is not a command."""
    try:
        return _decoder.decode(value)
    except msgspec.DecodeError:
        return None
