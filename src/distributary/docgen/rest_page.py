"""The page of all HTTP addresses, from the three applications' own routes.

What a route does is its handler's docstring; what to send and what comes back is told here. A route that has
neither is an error, so no address is left without a word.
"""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web

from distributary.config import Config
from distributary.config.sections import Publisher
from distributary.control.app_context import Context
from distributary.control.control_app import make_app
from distributary.gateway.gateway_app import make_app as make_gateway
from distributary.gateway.request_fields import accepted_fields
from distributary.publisher.http.http_server import HttpServer
from distributary.publisher.hub.hub import Hub
from distributary.publisher.metrics import Stats
from distributary.store.memory_store import MemoryStore

_INTRO = """\
# HTTP

<!-- Made by `python -m distributary.docgen` from the routes of src/distributary/control/control_app.py,
     src/distributary/publisher/http/http_server.py and src/distributary/gateway/. Do not edit. -->

Three parts of a stack speak HTTP: the control API (port 8080 unless it is taken), each publisher (port
8001) and the gateway (port 8082). `distributary up` prints their addresses. Bodies are JSON. Every error is
one object, `{"error": {"code", "message", "hint", "retry"}}`: see [errors](errors.md); those of the gateway
are `{"error_code", "message"}`, as its clients expect. A browser page of another site is refused (403)
unless `control.origins` names it. Where [permission](../how-to/permission.md) is on, every address but the
open ones needs a token or an API key: 401 without one that counts, 403 where it does not allow what is asked.
"""

DETAILS = {
    "GET /v1": "Gives `publisher` (the WebSocket's address), `http` (SSE, metrics) and `resources`.",
    "GET /v1/status": "All that `distributary status` shows: `parts`, `feeds`, `views` (rate, lag, position, "
    "subscribers, dead letters, delays), `publishers` and `problems`; and `stores`, the store's servers.",
    "GET /v1/feeds": "The feeds, with the views that are made of each.",
    "GET /v1/views": "All views, each as its status below.",
    "GET /v1/views/{name}": "Parameters: `where`, or `key` (repeated) or `keys` (separated by commas); "
    "`fields`, `limit` and `page`. As JSON, NDJSON, CSV or an Arrow stream, by `Accept`; with `ETag`, "
    "`Last-Modified`, `Cache-Control` and `Link`. See [how to read rows](../how-to/rest.md).",
    "GET /v1/views/{name}/status": "One view: `status` (`building`, `live` or `stopped`), `reason`, "
    "`rows`, `seq`, `epoch`, `records`, `dead_letters`, `rate`, `lag`, `engine`, `rekeyed`, `incomplete`, "
    "`stale`, `position` by partition, `next` (a build under way) and `definition`.",
    "PUT /v1/views/{name}": 'The body is a view\'s settings: `{"feed": "odds", "key": "market_id"}`. '
    "A feed that the stack does not know is given in full: "
    '`{"view": {…}, "feed": {"name": …, "topic": …}}`. Gives `build`, `state` and `changed`.',
    "POST /v1/subscriptions": 'The body is `{"view": "odds"}` with `"where": "sport = \'football\'"` or '
    '`"keys": ["m1", "m2"]`, for the first rows `"order": "price desc", "limit": 10`, and perhaps '
    '`"fields": "price,score.home"`. Gives 201 with `id`, `channel` and `publisher` (for a WebSocket), '
    "`events` (for SSE), which carry the fields, `state` and `expires_in`: a subscription that nobody "
    "follows lapses after `store.subscription_ttl`. 503 while the view is being built.",
    "GET /v1/subscriptions/{id}": "The same for one that exists; `pace` tells what it was not sent one "
    "by one, where it has [a pace](../how-to/first-rows-and-pace.md). 404 when it ended or lapsed.",
    "DELETE /v1/subscriptions/{id}": "Ends it at once. 204, or 404 when there is none.",
    "POST /v1/subscriptions/{id}/begin": "Whoever follows it gets the rows, then the changes. 409 when "
    "it was begun already.",
    "GET /readyz": "503 with the reason while one of them does not.",
    "GET /v1/views/{view}/events": "A view's rows and changes as server-sent events, or as lines of JSON "
    "with `Accept: application/x-ndjson`. Parameters: `where`, or `key` (repeated) "
    "or `keys` (separated by commas), or `subscription` (the id of one that the control API made); "
    "`fields` (only these); `from` (a position or a time: only what is newer); "
    "`order` and `limit`, `conflate`, `max_rate`, `max_bytes` and `slow` "
    "([how](../how-to/first-rows-and-pace.md)); "
    "`last_event_id` where the header `Last-Event-ID` cannot be sent, and `token` where `Authorization` "
    "cannot. The events are described in "
    "[the protocol](protocol.md#server-sent-events).",
    "GET /v1/stats": "What the publisher process that answers counts, as JSON.",
}

OF_PUBLISHER = {
    "GET /metrics": "Prometheus text: see [metrics](metrics.md).",
    "GET /healthz": "This process answers.",
    "GET /readyz": "The store answers too; 503 while it does not.",
    "GET /": "The file `index.html` of `publisher.static_dir`.",
    "GET /{file}": "A file of `publisher.static_dir`.",
}


_GATEWAY = """\
## Gateway

How to use it: [Kafka over HTTP](../how-to/kafka-over-http.md), [schemas](../how-to/schemas.md). An address
takes the parameters and fields that are listed with it; others are refused by name (400).
"""

OF_GATEWAY = {
    "POST /topics/{topic}": 'The body is `{"records": [{"key", "value", "partition"}]}`, with `value_schema` '
    "or `value_schema_id` (and likewise for keys) where the format has schemas. The format is in the "
    "`Content-Type`.",
    "GET /v1/topics/{topic}/stream": "Parameters: one of `from` (`earliest`, `latest`), `offset`, `offsets` "
    "(`0:12,1:40`), `time` (ISO 8601, or ms) and `group` (what it committed); `partition` (repeated), "
    "`format` (`json`, `binary`, `avro`, `jsonschema`) and `last_event_id` where the header `Last-Event-ID` "
    "cannot be sent.",
}


def page() -> str:
    """The whole page."""
    control = [_entry(name, handler, DETAILS) for name, handler in routes(control_app())]
    publisher = [_entry(name, None, {**DETAILS, **OF_PUBLISHER}) for name, _ in routes(publisher_app())]
    gateway = [_entry(name, handler, _of_gateway(name, handler)) for name, handler in routes(gateway_app())]
    return "\n".join([_INTRO, "## Control API\n", *control, "## Publisher\n", *publisher, _GATEWAY, *gateway])


def control_app() -> web.Application:
    """The control API's application, over an empty store."""
    store = MemoryStore()
    nothing: Any = None
    return make_app(Context(Config(), store.reader, store.writer, nothing))


def publisher_app() -> web.Application:
    """A publisher's application, over an empty store."""
    stats = Stats()
    hub = Hub(MemoryStore().reader, ttl=60, hold_bytes=1, stats=stats)
    return HttpServer(hub, Publisher(), stats, "1").app()


def gateway_app() -> web.Application:
    """The gateway's application, which asks nobody as long as it is not used."""
    return make_gateway(Config(), MemoryStore().reader)


def _of_gateway(name: str, handler: Any) -> dict[str, str]:
    """What an address of the gateway takes, as its handler declares it."""
    declared = accepted_fields(handler)
    parts = [OF_GATEWAY.get(name, "")]
    if declared.query and "Parameters:" not in parts[0]:
        parts.append(f"Parameters: {', '.join(f'`{one}`' for one in declared.query)}.")
    if declared.body and "body" not in parts[0]:
        parts.append(f"Fields of the body: {', '.join(f'`{one}`' for one in declared.body)}.")
    return {name: " ".join(part for part in parts if part)}


def routes(app: web.Application) -> list[tuple[str, Any]]:
    """Every ``METHOD /path`` with its handler; HEAD goes along with GET, as does a slash at the end."""
    found = {
        f"{route.method} {route.resource.canonical.rstrip('/') or '/'}": route.handler
        for route in app.router.routes()
        if route.method != "HEAD" and route.resource is not None
    }
    return list(found.items())


def _entry(name: str, handler: Any, details: dict[str, str]) -> str:
    about = " ".join(((getattr(handler, "__doc__", None) or "") if handler else "").split())
    about = re.sub(r"^``[^`]*``[:.]?\s*", "", about)
    about = about[:1].upper() + about[1:]
    text = " ".join(part for part in (about, details.get(name, "")) if part)
    if not text:
        raise LookupError(f"nothing is said of {name}: give its handler a docstring, or describe it here")
    return f"### `{name}`\n\n{text}\n"
