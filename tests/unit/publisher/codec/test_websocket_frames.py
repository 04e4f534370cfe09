"""WebSocket frames."""

from __future__ import annotations

import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.publisher.codec import codes, websocket_frames


def test_frame_length_is_in_its_header() -> None:
    for size in (0, 125, 126, 65535, 65536):
        frame = websocket_frames.frame(websocket_frames.TEXT, b"x" * size)
        assert frame[0] == 0x81
        head = 2 if size < 126 else 4 if size < 65536 else 10
        result = frame[1] if size < 126 else int.from_bytes(frame[2:head], "big")
        assert (result, len(frame)) == (size, head + size)


def test_close_frame_has_code_and_reason() -> None:
    frame = websocket_frames.close_frame(codes.SLOW)
    assert frame == b"\x88\x06" + (3008).to_bytes(2, "big") + b"slow"
    assert len(websocket_frames.close_frame(codes.Ending(3001, "x" * 500))) <= 127


def body(frame: bytes) -> bytes:
    return frame[2 if frame[1] < 126 else 4 if frame[1] == 126 else 10 :]


@given(st.binary(max_size=2_000))
def test_compressed_payload_is_restored(payload: bytes) -> None:
    frame = websocket_frames.deflated(websocket_frames.BINARY, payload)
    if len(payload) < websocket_frames.SMALL:
        assert frame == websocket_frames.frame(websocket_frames.BINARY, payload)
    else:
        assert frame[0] == 0xC2
        assert websocket_frames.inflate(body(frame), 2_000) == payload


def test_compressed_payload_is_smaller() -> None:
    assert len(websocket_frames.deflated(websocket_frames.TEXT, b'{"push":{"channel":"odds"}}\n' * 100)) < 200


@given(st.binary(max_size=300))
def test_invalid_data_is_not_inflated(data: bytes) -> None:
    with contextlib.suppress(ValueError, websocket_frames.TooBig):
        assert len(websocket_frames.inflate(data, 1_000)) <= 1_000


def test_compression_bomb_is_refused() -> None:
    bomb = body(websocket_frames.deflated(websocket_frames.TEXT, b"\0" * 50_000_000))
    assert len(bomb) < 300_000
    with pytest.raises(websocket_frames.TooBig):
        websocket_frames.inflate(bomb, 65_536)
    assert len(zlib.decompress(bomb + b"\x00\x00\xff\xff\x03\x00", -15)) == 50_000_000
