"""Who may use an address, by token or key, and which browser pages may.

Records are written and read by whoever's ``produce`` and ``consume`` name the topic; Kafka's own topics and
Distributary's are for admins. Schemas are read by whoever uses their topic, or whose ``subjects`` name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.auth import OPEN, Authenticator, Grant, Operator
from distributary.auth.limiter import Limiter
from distributary.auth.metering import measured
from distributary.config import Config
from distributary.errors import Forbidden
from distributary.gateway.registry.schemas_topic_records import local_subject
from distributary.httpd.cors import PageRules
from distributary.httpd.listener import client_of
from distributary.httpd.request_audit import Attempt, route_of

CONFIG: web.AppKey[Config] = web.AppKey("config", Config)
GATE: web.AppKey[Authenticator] = web.AppKey("gate", Authenticator)
LIMITER: web.AppKey[Limiter] = web.AppKey("limiter", Limiter)
RULES: web.AppKey[PageRules] = web.AppKey("pages", PageRules)

_GRANT: web.RequestKey[Grant] = web.RequestKey("grant", Grant)


class Need(Enum):
    """What a caller must have for an address."""

    OPEN = "nothing"
    USER = "any token or key; the handler leaves out what it does not allow"
    TOPIC = "produce or consume that names the topic, or operator rights: read"
    PRODUCE = "produce that names the topic"
    CONSUME = "consume that names the topic"
    GROUP = "groups that name the group; the handler looks which topics are read"
    SUBJECT = "subjects that name the subject, or its topic's produce or consume, or operator rights: read"
    REGISTER = "register that names the subject"
    READ = "operator rights: read"
    OPERATE = "operator rights: operate"
    ADMIN = "operator rights: admin"


_ONE = "/consumers/{group}/instances/{instance}"
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
    "POST /subjects/{subject}": Need.SUBJECT,
    "DELETE /subjects/{subject}": Need.OPERATE,
    "GET /subjects/{subject}/versions": Need.SUBJECT,
    "POST /subjects/{subject}/versions": Need.REGISTER,
    "GET /subjects/{subject}/versions/{version}": Need.SUBJECT,
    "GET /subjects/{subject}/versions/{version}/schema": Need.SUBJECT,
    "GET /subjects/{subject}/versions/{version}/referencedby": Need.SUBJECT,
    "DELETE /subjects/{subject}/versions/{version}": Need.OPERATE,
    "POST /compatibility/subjects/{subject}/versions": Need.SUBJECT,
    "POST /compatibility/subjects/{subject}/versions/{version}": Need.SUBJECT,
    "GET /config": Need.USER,
    "PUT /config": Need.OPERATE,
    "DELETE /config": Need.OPERATE,
    "GET /config/{subject}": Need.SUBJECT,
    "PUT /config/{subject}": Need.OPERATE,
    "DELETE /config/{subject}": Need.OPERATE,
    "GET /mode": Need.USER,
    "GET /mode/{subject}": Need.SUBJECT,
    "GET /brokers": Need.READ,
    "GET /topics": Need.USER,
    "GET /topics/{topic}": Need.TOPIC,
    "GET /topics/{topic}/partitions": Need.TOPIC,
    "GET /topics/{topic}/partitions/{partition}": Need.TOPIC,
    "GET /topics/{topic}/partitions/{partition}/offsets": Need.TOPIC,
    "GET /topics/{topic}/partitions/{partition}/messages": Need.CONSUME,
    "GET /v1/topics/{topic}/stream": Need.CONSUME,
    "GET /v3/clusters": Need.USER,
    "GET /v3/clusters/{cluster}": Need.USER,
    "POST /topics/{topic}": Need.PRODUCE,
    "POST /topics/{topic}/partitions/{partition}": Need.PRODUCE,
    "POST /v3/clusters/{cluster}/topics/{topic}/records": Need.PRODUCE,
    "POST /consumers/{group}": Need.GROUP,
    f"DELETE {_ONE}": Need.GROUP,
    f"GET {_ONE}/topics/{{topic}}": Need.GROUP,
    f"GET {_ONE}/records": Need.GROUP,
    f"POST {_ONE}/offsets": Need.GROUP,
    f"GET {_ONE}/offsets": Need.GROUP,
    f"POST {_ONE}/subscription": Need.GROUP,
    f"GET {_ONE}/subscription": Need.GROUP,
    f"DELETE {_ONE}/subscription": Need.GROUP,
    f"POST {_ONE}/assignments": Need.GROUP,
    f"GET {_ONE}/assignments": Need.GROUP,
    f"POST {_ONE}/positions": Need.GROUP,
    f"POST {_ONE}/positions/beginning": Need.GROUP,
    f"POST {_ONE}/positions/end": Need.GROUP,
}
"""Every address by what it needs; one that is not here needs an admin."""

_LEVELS = {Need.READ: Operator.READ, Need.OPERATE: Operator.OPERATE, Need.ADMIN: Operator.ADMIN}


@web.middleware
async def permitted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through to its handler when its token or key allows what the address needs."""
    config, gate = request.app[CONFIG], request.app[GATE]
    origin = request.headers.get("Origin")
    request.app[RULES].check(request.headers)
    if origin is not None and request.method == "OPTIONS":
        return _opened(web.Response(status=204), origin)
    route = _route(request)
    if route:
        need = NEEDS.get(route, Need.ADMIN)
        limiter, size = request.app[LIMITER], request.content_length or 0
        if need is Need.OPEN:
            grant = OPEN
        else:
            await limiter.arrival(client_of(request), size)
            grant = await gate.by_headers(request.headers)
        request[_GRANT] = grant
        demand(grant, need, request.match_info, config)
        await limiter.request(grant, size)
        with limiter.metered(grant):
            reply = await measured(handler(request))
    else:
        reply = await handler(request)
    return _opened(reply, origin) if origin is not None and not reply.prepared else reply


def _route(request: web.Request) -> str:
    """Name the route of a request as `NEEDS` does; '' where there is none."""
    prefix = prefix_of(request.app[CONFIG])
    return route_of(request, lambda path: path.removeprefix(prefix).removeprefix(prefix).rstrip("/") or "/")


def attempt(request: web.Request) -> Attempt:
    """Say what a request tried, for the audit log."""
    route, grant = _route(request), request.get(_GRANT)
    changes = bool(route) and NEEDS.get(route, Need.ADMIN) in (Need.REGISTER, Need.OPERATE, Need.ADMIN)
    return Attempt(route or request.method, grant.user if grant is not None else "", changes)


def demand(grant: Grant, need: Need, address: Mapping[str, str], config: Config) -> None:
    """Raise Forbidden unless a grant has what is needed for an address, of whose parts ``address`` tells."""
    if need in _LEVELS:
        grant.require_operator(_LEVELS[need])
    elif need is Need.GROUP:
        grant.require_group(address["group"])
    elif need is Need.REGISTER:
        grant.require_register(local_subject(address["subject"]))
    elif need is Need.SUBJECT and not grant.may_read_subject(local_subject(address["subject"])):
        raise Forbidden(
            f'the user "{grant.user}" may not read schemas of "{address["subject"][:80]}"',
            hint="ask for a token whose subjects name it",
        )
    elif need in (Need.TOPIC, Need.PRODUCE, Need.CONSUME):
        check_topic(grant, need, address["topic"], config)


def check_topic(grant: Grant, need: Need, topic: str, config: Config) -> None:
    """Raise Forbidden unless a grant has what is needed of a topic."""
    if need is Need.TOPIC:
        if not grant.may_describe(topic):
            raise Forbidden(
                f'the user "{grant.user}" may neither produce to nor consume the topic "{topic[:80]}"',
                hint="ask for a token that names it",
            )
        return
    if is_internal(topic, config):
        grant.require_operator(Operator.ADMIN)
    if need is Need.PRODUCE:
        grant.require_produce(topic)
    else:
        grant.require_consume(topic)


def is_internal(topic: str, config: Config) -> bool:
    """Say whether a topic is Kafka's own, or Distributary's: queries and rows of all users are in them."""
    ours = (config.kafka.commands_topic, config.gateway.schemas_topic)
    return topic in ours or topic.startswith(("__", "distributary."))


def grant_of(request: web.Request) -> Grant:
    """Give what the caller may do."""
    return request[_GRANT]


def check_consumes(request: web.Request, topics: Iterable[str]) -> None:
    """Raise Forbidden unless the caller may read the records of all of these topics."""
    for topic in topics:
        check_topic(grant_of(request), Need.CONSUME, topic, request.app[CONFIG])


def user_of(request: web.Request) -> str:
    """Name the user of a request; "" where permission is off."""
    grant = request.get(_GRANT)
    return "" if grant is None else grant.user


async def still_permitted(request: web.Request) -> None:
    """Raise TokenRefused when what let a long request in does not count any more."""
    for _, why in await request.app[GATE].ended([grant_of(request)]):
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
