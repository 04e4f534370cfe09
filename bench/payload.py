"""The publication of the fan-out: the same bytes from both servers."""

from __future__ import annotations


class Payload:
    """A change of one row that is ``size`` bytes as a subscriber gets it (numbers up to 9,999,999)."""

    key = b"k"
    time = 1_700_000_000_000

    def __init__(self, size: int) -> None:
        bare = len(self._data(0, b""))
        if size < bare:
            raise ValueError(f"a payload has at least {bare} bytes")
        self._pads = [bytes([letter]) * (size - bare) for letter in b"ab"]

    def value(self, n: int) -> bytes:
        """The record's value: all of its fields differ from the one before."""
        return b'{"n":%d,"pad":"%b"}' % (10_000_000 + n, self._pads[n % 2])

    def data(self, n: int) -> bytes:
        """What the subscriber gets of it."""
        return self._data(n, self._pads[n % 2])

    def _data(self, n: int, pad: bytes) -> bytes:
        return b'{"op":"change","key":"%b","time":%d,"changed":{"n":%d,"pad":"%b"}}' % (
            self.key,
            self.time,
            10_000_000 + n,
            pad,
        )
