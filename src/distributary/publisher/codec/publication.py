"""A publication, taken apart: what happened to which row."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from distributary.publisher.codec.websocket_frames import Pub, encode


class Told(msgspec.Struct, gc=False):
    """What a publication says."""

    op: str
    key: str
    time: int = 0
    row: msgspec.Raw = msgspec.Raw(b"")
    changed: dict[str, msgspec.Raw] = {}
    gone: list[str] = []


class Step(NamedTuple):
    """A publication with the words of it that most need."""

    seq: int
    data: bytes
    op: str
    key: str
    time: int


tell = msgspec.json.Decoder(Told).decode


def step_of(pub: Pub) -> Step:
    """Take a publication apart."""
    told = tell(pub[1])
    return Step(pub[0], pub[1], told.op, told.key, told.time)


def whole(key: str, time: int, row: bytes) -> bytes:
    """Say that a row is now so, whether or not it was there before."""
    return b'{"op":"add","key":%b,"time":%d,"row":%b}' % (encode(key), time, row)


def removed(key: str, time: int) -> bytes:
    """Say that a row is not there any more."""
    return b'{"op":"remove","key":%b,"time":%d}' % (encode(key), time)


def placed(data: bytes, at: int) -> bytes:
    """Add to a publication where its row stands now, counted from 0."""
    return b'%b,"at":%d}' % (data[:-1], at)
