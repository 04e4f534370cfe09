"""Who may use an address, by token or key, and which browser pages may.

A topic is written by whoever's ``publish`` names it, or names a feed that is read from it; Kafka's topics and
Distributary's own are for admins. Schemas are read by everybody who is known. All else is for admins.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.config import Config
from distributary.errors import Forbidden, OriginRefused
from distributary.permit import OPEN, Gate, Grant, origin_allowed

CONFIG: web.AppKey[Config] = web.AppKey("config", Config)
GATE: web.AppKey[Gate] = web.AppKey("gate", Gate)

_GRANT: web.RequestKey[Grant] = web.RequestKey("grant", Grant)


class Need(Enum):
    """What a caller must have for an address."""

    OPEN = "nothing"
    USER = "any token or key"
    PUBLISH = "publish, naming the topic or its feed"
    ADMIN = "admin"


NEEDS: Mapping[str, Need] = {
    "GET /": Need.OPEN,
    "GET /healthz": Need.OPEN,
    "GET /readyz": Need.OPEN,
    "GET /schemas/types": Need.USER,
    "GET /schemas/ids/{id}": Need.USER,
    "GET /schemas/ids/{id}/schema": Need.USER,
    "GET /schemas/ids/{id}/subjects": Need.USER,
    "GET /schemas/ids/{id}/versions": Need.USER,
    "GET /subjects": Need.USER,
    "POST /subjects/{subject}": Need.USER,
    "GET /subjects/{subject}/versions": Need.USER,
    "GET /subjects/{subject}/versions/{version}": Need.USER,
    "GET /subjects/{subject}/versions/{version}/schema": Need.USER,
    "GET /subjects/{subject}/versions/{version}/referencedby": Need.USER,
    "POST /compatibility/subjects/{subject}/versions": Need.USER,
    "POST /compatibility/subjects/{subject}/versions/{version}": Need.USER,
    "GET /config": Need.USER,
    "GET /config/{subject}": Need.USER,
    "GET /mode": Need.USER,
    "GET /mode/{subject}": Need.USER,
    "GET /v3/clusters": Need.USER,
    "GET /v3/clusters/{cluster}": Need.USER,
    "POST /topics/{topic}": Need.PUBLISH,
    "POST /topics/{topic}/partitions/{partition}": Need.PUBLISH,
    "POST /v3/clusters/{cluster}/topics/{topic}/records": Need.PUBLISH,
}
"""Every address by what it needs; one that is not here needs an admin."""


@web.middleware
async def permitted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through to its handler when its token or key allows what the address needs."""
    config, gate = request.app[CONFIG], request.app[GATE]
    origin = request.headers.get("Origin")
    if not origin_allowed(origin, request.host, config.publisher.origins):
        raise OriginRefused(
            f"pages of {str(origin)[:200]} may not use the gateway",
            hint="name it in publisher.origins of the configuration",
        )
    if origin is not None and request.method == "OPTIONS":
        return _opened(web.Response(status=204), origin)
    resource = request.match_info.route.resource
    if gate.on and resource is not None:
        method = "GET" if request.method == "HEAD" else request.method
        prefix = prefix_of(config)
        path = resource.canonical.removeprefix(prefix).removeprefix(prefix).rstrip("/")
        need = NEEDS.get(f"{method} {path or '/'}", Need.ADMIN)
        grant = OPEN if need is Need.OPEN else await gate.by_headers(request.headers)
        demand(grant, need, request.match_info.get("topic", ""), config)
        request[_GRANT] = grant
    reply = await handler(request)
    return _opened(reply, origin) if origin is not None and not reply.prepared else reply


def demand(grant: Grant, need: Need, topic: str, config: Config) -> None:
    """Raise Forbidden unless a grant has what is needed (of ``topic``)."""
    if grant.admin or need in (Need.OPEN, Need.USER):
        return
    if need is Need.PUBLISH:
        ours = (config.kafka.commands_topic, config.gateway.schemas_topic)
        if topic not in ours and not topic.startswith(("__", "distributary.")):
            feeds = [feed.name for feed in config.feeds if feed.topic == topic]
            for name in feeds:
                try:
                    return grant.feed(name)
                except Forbidden:
                    continue
            return grant.feed(topic)
        raise Forbidden(f'the topic "{topic}" is written by admins only', hint="publish to a topic of yours")
    raise Forbidden(f'the user "{grant.user}" is no admin', hint="ask for a token with admin = true")


def may_register(request: web.Request) -> bool:
    """Whether the caller may register schemas under any subject, and not only under those of a topic."""
    grant = request.get(_GRANT)
    return grant is None or grant.admin


async def still_permitted(request: web.Request) -> None:
    """Raise TokenRefused when what let a long request in does not count any more."""
    grant = request.get(_GRANT)
    if grant is not None:
        for _, why in await request.app[GATE].ended([grant]):
            raise why


def prefix_of(config: Config) -> str:
    """Give the path under which clients find the gateway: that of ``gateway.advertised_url``."""
    rest = config.gateway.advertised_url.partition("://")[2]
    return ("/" + rest.partition("/")[2].strip("/")).rstrip("/")


def _opened(reply: web.StreamResponse, origin: str) -> web.StreamResponse:
    reply.headers["Access-Control-Allow-Origin"] = origin
    reply.headers["Access-Control-Allow-Methods"] = "GET, HEAD, POST, PUT, DELETE"
    reply.headers["Access-Control-Allow-Headers"] = (
        "Accept, Content-Type, Authorization, X-API-Key, Last-Event-ID, Cache-Control"
    )
    reply.headers.add("Vary", "Origin")
    return reply
