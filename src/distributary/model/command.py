"""A command: a record on the commands topic, read by every reducer."""

from __future__ import annotations

from typing import Literal

import msgspec


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asked what of which view. ``query`` is the normal form; empty with ``begin`` and ``end``."""

    op: Literal["subscribe", "begin", "end"]
    view: str
    subscription: str
    query: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """Write a command as the record's value."""
    return _encoder.encode(command)


def decode_command(value: bytes) -> Command | None:
    """Read a record's value; None when it is not a command (somebody else's record)."""
    try:
        return _decoder.decode(value)
    except msgspec.DecodeError:
        return None
