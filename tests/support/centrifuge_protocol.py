"""The fields of the commands of the Centrifuge protocol, with their numbers in Protobuf."""

from __future__ import annotations

PROTOCOL: dict[str, dict[str, int]] = {
    "connect": {"token": 1, "data": 2, "subs": 3, "name": 4, "version": 5, "headers": 6, "flag": 7},
    "subscribe": {
        "channel": 1,
        "token": 2,
        "recover": 3,
        "epoch": 6,
        "offset": 7,
        "data": 8,
        "positioned": 9,
        "recoverable": 10,
        "join_leave": 11,
        "delta": 12,
        "tf": 13,
        "flag": 14,
        "type": 15,
        "phase": 16,
        "cursor": 17,
        "limit": 18,
        "asc": 19,
    },
    "unsubscribe": {"channel": 1},
    "publish": {"channel": 1, "data": 2, "type": 3, "key": 4, "removed": 5},
    "presence": {"channel": 1},
    "presence_stats": {"channel": 1},
    "history": {"channel": 1, "limit": 7, "since": 8, "reverse": 9},
    "ping": {},
    "send": {"data": 1},
    "rpc": {"data": 1, "method": 2},
    "refresh": {"token": 1},
    "sub_refresh": {"channel": 1, "token": 2, "type": 3, "track": 4, "untrack": 5},
}
"""The fields of every command by their numbers, as the newest SDK has them (see also test_clients.py)."""
