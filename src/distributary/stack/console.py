"""The events of a stack as lines to read, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from distributary.stack.component import Event, EventKind

_WIDTH = 12

_LABELS = {
    "http": "page, SSE and metrics",
    "websocket": "WebSocket",
    "socketio": "socket.io",
    "control": "control API",
    "gateway": "Kafka over HTTP",
    "kafka": "Kafka",
    "store": "store",
}


def lines(event: Event) -> list[str]:
    """Format an event as lines: the component, what happened, and the end of its log where that helps."""
    if event.kind in (EventKind.NOTE, EventKind.WAITING):
        text = event.message
    elif event.kind == EventKind.READY:
        where = ", ".join(event.addresses.values())
        text = " ".join(word for word in ("ready", event.message, f"at {where}" if where else "") if word)
    elif event.kind in (EventKind.SILENT, EventKind.DIED, EventKind.FAILED):
        text = event.message
    else:
        text = event.kind
    name = event.component or "stack"
    found = [f"{name:<{_WIDTH}}{text}"]
    if event.log_tail:
        found.append(f"{'':<{_WIDTH}}the end of its log:")
        found += [f"{'':<{_WIDTH}}| {line}" for line in event.log_tail]
    return found


def as_json(event: Event) -> str:
    """Format an event as one line of JSON; empty fields are left out."""
    body = {
        "event": event.kind,
        "component": event.component,
        "message": event.message,
        "addresses": dict(event.addresses),
        "log": list(event.log_tail),
    }
    return json.dumps({name: value for name, value in body.items() if value}, ensure_ascii=False)


def where_to_go(addresses: Mapping[str, str]) -> list[str]:
    """The addresses that can be opened now, best known first."""
    known = [(text, addresses[name]) for name, text in _LABELS.items() if name in addresses]
    known += [(name, address) for name, address in addresses.items() if name not in _LABELS]
    return [f"{'':<{_WIDTH}}{text:<24}{address}" for text, address in known]
