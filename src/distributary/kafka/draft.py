"""A record on its way in, before Kafka has it."""

from __future__ import annotations

from typing import NamedTuple


class Draft(NamedTuple):
    """A record that is to be written. ``partition`` -1 leaves the choice, ``timestamp`` (ms) 0 means now.

    ``reason`` is not "" where it has become a dead letter, and says why. ``sender`` is the user that sent it,
    if that is known: checks of one user's records that are slow do not keep another's waiting.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: tuple[tuple[str, bytes | str | None], ...] = ()
    timestamp: int = 0
    reason: str = ""
    sender: str = ""

    def __str__(self) -> str:
        """Name the record for messages: enough to find it, little enough to print."""
        place = f"topic {self.topic}" + (f" partition {self.partition}" if self.partition >= 0 else "")
        key = "without a key" if self.key is None else f"with key {_short(self.key)}"
        size = "with no value" if self.value is None else f"of {len(self.value)} bytes"
        return f"the record {size} {key} for {place}"


def _short(key: bytes) -> str:
    text = repr(key)[1:]
    return text if len(text) <= 60 else text[:57] + "…'"
