"""The page of all HTTP routes, from the tables of the three servers.

What a route does is its handler's docstring; the request and the response are described in the table. A
route that has neither is an error, so every route is documented.
"""

from __future__ import annotations

import re

from distributary.config.server_sections import Publisher
from distributary.control import control_app
from distributary.gateway import gateway_app
from distributary.gateway.request_fields import accepted_fields
from distributary.httpd.authorization import Route
from distributary.publisher.http.http_server import HttpServer
from distributary.publisher.hub.hub import Hub
from distributary.publisher.metrics import Counters
from distributary.store.memory_store import MemoryStore

_INTRO = """\
# HTTP

<!-- Made by `python -m distributary.docgen` from the routes of src/distributary/control/control_app.py,
     src/distributary/publisher/http/http_server.py and src/distributary/gateway/. Do not edit. -->

Three components of a stack have an HTTP API: the control API (port 8080 unless it is taken), each publisher
(port 8001) and the gateway (port 8082). `distributary up` prints their addresses. Bodies are JSON. Every
error is one object, `{"error": {"code", "message", "hint", "retry"}}`: see [errors](errors.md); those of the
gateway are `{"error_code", "message"}`, as its clients expect. A browser page of another site gets 403
unless `control.origins` lists it. If [authorization](../how-to/authorization.md) is on, every route but the
public ones requires a token or an API key: 401 without a valid one, 403 if it does not allow the request.
"""

_GATEWAY = """\
## Gateway

How to use it: [Kafka over HTTP](../how-to/kafka-over-http.md), [schemas](../how-to/schemas.md). A
route accepts the parameters and fields that are listed with it; others are refused by name (400).
"""


def page() -> str:
    """The whole page."""
    control = [_entry(route.name, route.handler.__doc__, route.doc) for route in control_app.ROUTES]
    publisher = [_entry(route.name, None, route.doc) for route in publisher_server().routes()]
    gateway = [
        _entry(route.name, route.handler.__doc__, _with_fields(route)) for route in gateway_app.all_routes()
    ]
    return "\n".join([_INTRO, "## Control API\n", *control, "## Publisher\n", *publisher, _GATEWAY, *gateway])


def publisher_server() -> HttpServer:
    """A publisher's HTTP server, with an empty store."""
    stats = Counters()
    hub = Hub(MemoryStore().reader, ttl=60, buffer_bytes=1, stats=stats)
    return HttpServer(hub, Publisher(), stats, "1")


def _with_fields(route: Route) -> str:
    """Describe what a route of the gateway accepts, as its handler declares it."""
    declared = accepted_fields(route.handler)
    parts = [route.doc]
    if declared.query and "Parameters:" not in route.doc:
        parts.append(f"Parameters: {', '.join(f'`{one}`' for one in declared.query)}.")
    if declared.body and "body" not in route.doc:
        parts.append(f"Fields of the body: {', '.join(f'`{one}`' for one in declared.body)}.")
    return " ".join(part for part in parts if part)


def _entry(name: str, docstring: str | None, doc: str) -> str:
    about = re.sub(r"^``[^`]*``[:.]?\s*", "", " ".join((docstring or "").split()))
    about = about[:1].upper() + about[1:]
    text = " ".join(part for part in (about, doc) if part)
    if not text:
        raise LookupError(f"{name} is not documented: give its handler a docstring, or its route a doc")
    return f"### `{name}`\n\n{text}\n"
