"""What happens in a stack, as lines to read or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from distributary.stack.component import Event

_WIDTH = 12

_OPEN = {
    "http": "page, SSE and metrics",
    "websocket": "WebSocket",
    "socketio": "socket.io",
    "control": "control API",
    "gateway": "Kafka over HTTP",
    "kafka": "Kafka",
    "store": "store",
}


def lines(event: Event) -> list[str]:
    """Write an event as lines: the part, what became of it, and the end of its log where that helps."""
    if event.kind in ("note", "waiting"):
        said = event.message
    elif event.kind == "ready":
        where = ", ".join(event.addresses.values())
        said = " ".join(word for word in ("ready", event.message, f"at {where}" if where else "") if word)
    elif event.kind in ("silent", "died", "failed"):
        said = event.message
    else:
        said = event.kind
    name = event.part or "stack"
    found = [f"{name:<{_WIDTH}}{said}"]
    if event.tail:
        found.append(f"{'':<{_WIDTH}}the end of its log:")
        found += [f"{'':<{_WIDTH}}| {line}" for line in event.tail]
    return found


def as_json(event: Event) -> str:
    """Write an event as one line of JSON; what is empty is left out."""
    body = {
        "event": event.kind,
        "part": event.part,
        "message": event.message,
        "addresses": dict(event.addresses),
        "log": list(event.tail),
    }
    return json.dumps({name: value for name, value in body.items() if value}, ensure_ascii=False)


def where_to_go(addresses: Mapping[str, str]) -> list[str]:
    """What can be opened now, best known first."""
    known = [(text, addresses[name]) for name, text in _OPEN.items() if name in addresses]
    known += [(name, address) for name, address in addresses.items() if name not in _OPEN]
    return [f"{'':<{_WIDTH}}{text:<24}{address}" for text, address in known]
