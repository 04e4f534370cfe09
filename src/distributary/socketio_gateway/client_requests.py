"""The requests of socket.io clients, and the commands of the client protocol that they become. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from distributary.config.problems import nearest
from distributary.errors import BadRequest
from distributary.model.query_params import event_channel

FIELDS: Mapping[str, tuple[str, ...]] = {
    "subscribe": ("channel", "view", "where", "keys", "fields", "recover", "data", "token"),
    "unsubscribe": ("channel",),
    "publish": ("channel", "data"),
    "history": ("channel", "limit", "since", "reverse"),
    "rpc": ("method", "data"),
    "refresh": ("token",),
    "sub_refresh": ("channel", "token"),
}
"""The events, and the fields of their payloads."""

_KINDS: Mapping[str, type] = {
    "channel": str,
    "view": str,
    "where": str,
    "method": str,
    "token": str,
    "limit": int,
    "reverse": bool,
}
_TYPE_NAMES = {str: "a string", int: "an integer", bool: "a boolean"}


class ClientRequest(NamedTuple):
    """A command: ``method`` is its name in the protocol; ``channel`` is "" where it has none."""

    method: str
    params: dict[str, Any]
    channel: str


def read(event: str, payload: tuple[Any, ...]) -> ClientRequest:
    """Read an event's payload. Raises BadRequest or BadQuery."""
    known = FIELDS[event]
    if len(payload) != 1 or not isinstance(payload[0], dict):
        raise BadRequest(f"{event} takes one object with some of {', '.join(known)}")
    given: dict[str, Any] = {name: value for name, value in payload[0].items() if value is not None}
    for name, value in given.items():
        if name not in known:
            near = nearest(name, known)
            raise BadRequest(f"{event} has no field {name!r}", hint=f"did you mean {near!r}?" if near else "")
        kind = _KINDS.get(name)
        if kind is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise BadRequest(f"{name} must be {_TYPE_NAMES[kind]}")
    if event == "subscribe":
        return _subscribe(given)
    if "channel" in known and not given.get("channel"):
        raise BadRequest(f"{event} needs a channel")
    if "since" in given:
        given["since"] = _position("since", given["since"])
    return ClientRequest(event, given, given.get("channel", ""))


def _subscribe(given: dict[str, Any]) -> ClientRequest:
    channel = event_channel(given)
    params: dict[str, Any] = {"channel": channel}
    params |= {name: given[name] for name in ("data", "token") if name in given}
    if "recover" in given:
        params |= {"recover": True, **_position("recover", given["recover"])}
    return ClientRequest("subscribe", params, channel)


def _position(name: str, value: Any) -> dict[str, Any]:
    epoch, offset = (value.get("epoch"), value.get("offset")) if isinstance(value, dict) else (None, None)
    if not isinstance(epoch, str) or not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise BadRequest(f'{name} must be a position: {{"epoch": STRING, "offset": NUMBER}}')
    return {"epoch": epoch, "offset": offset}
