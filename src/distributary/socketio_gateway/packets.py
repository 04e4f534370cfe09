"""socket.io packets whose numbers keep their digits, and which are refused where they are no packets."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from socketio import packet


class ExactJson:
    """The two functions of ``json`` that python-socketio calls."""

    @staticmethod
    def dumps(value: Any, **how: Any) -> str:
        """Write a value; what came from the publisher is in it as it came (``msgspec.Raw``)."""
        return msgspec.json.encode(value).decode()

    @staticmethod
    def loads(text: str) -> Any:
        """Read a value; integers are int and other numbers Decimal. Raises ValueError for anything else."""
        try:
            return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
        except RecursionError:
            raise ValueError("nested too deep") from None
        except InvalidOperation:
            raise ValueError("a number is beyond all bounds") from None


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


class Packet(packet.Packet):  # type: ignore[misc]  # it has no types
    """A packet with exact numbers. An event that has no name is a ValueError, as other bad packets are.

    So is one that announces binary attachments: what is said here is JSON, and all of them would be kept
    until the last has come.
    """

    json = ExactJson

    def decode(self, encoded_packet: Any) -> int:
        """Read a packet; say how many attachments follow it: none."""
        attachments: int = super().decode(encoded_packet)
        if attachments:
            raise ValueError("binary attachments are not served")
        if self.packet_type in (packet.EVENT, packet.BINARY_EVENT):
            named = isinstance(self.data, list) and self.data and isinstance(self.data[0], str)
            if not named or self.data[0] in ("connect", "disconnect", "*"):
                raise ValueError("an event has a name that is not one of socket.io's own")
        return attachments
