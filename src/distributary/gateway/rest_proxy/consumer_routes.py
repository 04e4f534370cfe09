"""Consuming by versions 1 and 2: instances under ``/consumers/{group}``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec
import re2  # type: ignore[import-untyped]
from aiohttp import web
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Message

from distributary.auth.metering import KAFKA_CLIENT, charge
from distributary.errors import Forbidden, GatewayError
from distributary.gateway.error_codes import UNPROCESSABLE, RestCode, api_error
from distributary.gateway.gateway_access import CONFIG, check_consumes, user_of
from distributary.gateway.registry.registry_requests import SCHEMA_LOG
from distributary.gateway.registry.schema_checker import DEADLINE
from distributary.gateway.request_fields import accepts
from distributary.gateway.response_bodies import number, read_json
from distributary.gateway.rest_proxy import produce_requests, topic_routes
from distributary.gateway.rest_proxy.consumer_instance import Instance
from distributary.gateway.rest_proxy.consumer_pool import Instances
from distributary.gateway.rest_proxy.consumer_requests import SETTINGS, base_uri, wish
from distributary.gateway.rest_proxy.converter import Converter
from distributary.gateway.rest_proxy.media_types import Media, of_accept, of_body
from distributary.gateway.rest_proxy.metadata_client import Cluster
from distributary.gateway.rest_proxy.record_schemas import finder
from distributary.httpd.authorization import AUTHORIZATION, Requirement, Route, grant_of

INSTANCES: web.AppKey[Instances] = web.AppKey("instances", Instances)

_ONE = "/consumers/{group}/instances/{instance}"
MAX_WAIT = 60_000


class Pattern(Protocol):
    """A compiled regular expression."""

    def fullmatch(self, text: str) -> object:
        """Give a match of the whole text, or None."""


def routes() -> list[Route]:
    """List the addresses for consuming."""
    return [
        Route("POST", "/consumers/{group}", create, Requirement.GROUP),
        Route("DELETE", _ONE, delete, Requirement.GROUP),
        Route("GET", _ONE + "/topics/{topic}", read_topic, Requirement.GROUP),
        Route("GET", _ONE + "/records", read_records, Requirement.GROUP),
        Route("POST", _ONE + "/offsets", commit, Requirement.GROUP),
        Route("GET", _ONE + "/offsets", committed, Requirement.GROUP),
        Route("POST", _ONE + "/subscription", subscribe, Requirement.GROUP),
        Route("GET", _ONE + "/subscription", subscription, Requirement.GROUP),
        Route("DELETE", _ONE + "/subscription", unsubscribe, Requirement.GROUP),
        Route("POST", _ONE + "/assignments", assign, Requirement.GROUP),
        Route("GET", _ONE + "/assignments", assignment, Requirement.GROUP),
        Route("POST", _ONE + "/positions", seek, Requirement.GROUP),
        Route("POST", _ONE + "/positions/beginning", seek_to_beginning, Requirement.GROUP),
        Route("POST", _ONE + "/positions/end", seek_to_end, Requirement.GROUP),
    ]


@accepts(body=SETTINGS, error_code=RestCode.INVALID_CONSUMER_CONFIG)
async def create(request: web.Request) -> web.Response:
    """Make a consumer instance in a group; gives ``instance_id`` and ``base_uri``, under which it is used."""
    group = request.match_info["group"]
    if len(group) > 255 or not group.isprintable():
        raise api_error(
            RestCode.INVALID_CONSUMER_CONFIG, "the group is no name", "use at most 255 characters"
        )
    wanted = wish(await read_json(request, empty={}))
    limiter, grant = request.app[AUTHORIZATION].limiter, grant_of(request)
    shares = limiter.consumer(grant)
    await limiter.usage.take(shares)
    end = partial(limiter.usage.give, shares)
    try:
        made = await request.app[INSTANCES].create(group, wanted, grant.user, end)
    except BaseException:
        end()
        raise
    charge(KAFKA_CLIENT)
    said = base_uri(
        group,
        made.name,
        advertised=request.app[CONFIG].gateway.advertised_url,
        host=request.host,
        scheme=request.scheme,
        headers=request.headers,
    )
    return topic_routes.reply(request, {"instance_id": made.name, "base_uri": said})


async def delete(request: web.Request) -> web.Response:
    """Close an instance; others of its group take over its partitions."""
    await request.app[INSTANCES].remove(*_which(request))
    return web.Response(status=204)


@accepts(query=("timeout", "max_bytes"))
async def read_topic(request: web.Request) -> web.Response:
    """Read a topic (version 1): the first read subscribes to it. Waits for records; ``[]`` if none came."""
    topic = request.match_info["topic"]
    check_consumes(request, [topic])
    async with _instance(request) as instance:
        if instance.topics not in ((), (topic,)):
            raise api_error(
                RestCode.CONSUMER_ALREADY_SUBSCRIBED,
                f"the instance reads {', '.join(instance.topics)}",
                "make another for this",
            )
        if not instance.topics:
            await topic_routes.ask(request, Cluster.check, topic)
            await request.app[INSTANCES].run(instance.subscribe, [topic])
        return await _read(request, instance, 1)


@accepts(query=("timeout", "max_bytes"))
async def read_records(request: web.Request) -> web.Response:
    """Read what is subscribed or assigned (version 2). Parameters: ``timeout`` in ms, ``max_bytes``."""
    async with _instance(request) as instance:
        if not await request.app[INSTANCES].run(instance.reads):
            raise api_error(
                RestCode.ILLEGAL_STATE,
                "the instance has neither a subscription nor assignments",
                "make one by POST …/subscription",
            )
        return await _read(request, instance, 2)


async def _read(request: web.Request, instance: Instance, version: int) -> web.Response:
    wanted = of_accept(request.headers.get("Accept", "")).format or instance.wish.format
    if wanted != instance.wish.format:
        raise api_error(
            RestCode.CONSUMER_FORMAT_MISMATCH,
            f"the instance was made for {instance.wish.format}, not {wanted}",
            "accept its format, or make another",
        )
    settings = request.app[CONFIG].gateway
    usual = settings.poll_timeout if instance.wish.wait is None else instance.wish.wait
    wait = number(request, "timeout", -1, low=-1, high=MAX_WAIT)
    limit = number(request, "max_bytes", settings.max_body, low=-1)
    await request.app[INSTANCES].run_until(instance.fetch, usual if wait < 0 else wait / 1000)
    shown = instance.peek(min(limit, settings.max_body) if limit > 0 else settings.max_body)
    records = await told(request, shown, wanted, with_topic=version == 2)
    instance.take(len(records))
    return records_reply(records, Media(version, wanted))


async def told(
    request: web.Request, messages: list[Message], format: str, *, with_topic: bool
) -> list[dict[str, Any]]:
    """Write records for a reply; what stands before one that cannot be read is told first."""
    find = await finder(request.app[SCHEMA_LOG], messages) if format in ("avro", "jsonschema") else _no_schema
    convert = Converter(request.app[DEADLINE], user_of(request))
    found: list[dict[str, Any]] = []
    for message in messages:
        where = f"record {message.offset()} of partition {message.partition()} of {message.topic()!r}"
        try:
            key = await convert.decode(format, message.key(), find, f"the key of {where}")
            value = await convert.decode(format, message.value(), find, f"the value of {where}")
        except GatewayError:
            if found:
                return found
            raise
        said = {"key": key, "value": value, "partition": message.partition(), "offset": message.offset()}
        found.append({"topic": message.topic(), **said} if with_topic else said)
    return found


def _no_schema(number: int) -> None:
    return None


def records_reply(records: list[dict[str, Any]], media: Media) -> web.Response:
    """Make a reply of records."""
    return web.Response(body=msgspec.json.encode(records), content_type=media.text)


@accepts(body=("offsets",))
async def commit(request: web.Request) -> web.Response:
    """Commit what replies took, or what the body says: ``offsets`` with ``topic, partition, offset``."""
    body = await read_json(request, empty={})
    chosen = (
        produce_requests.places(body, "offsets", produce_requests.COMMITTED) if "offsets" in body else None
    )
    async with _instance(request) as instance:
        await request.app[INSTANCES].run(instance.commit, chosen)
        said = [
            {
                "topic": topic,
                "partition": part,
                "consumed": at,
                "committed": instance.committed.get((topic, part)),
            }
            for (topic, part), at in instance.consumed.items()
        ]
    version = of_body(request.headers.get("Content-Type", "")).version
    return topic_routes.reply(request, said if version == 1 else [])


@accepts(body=("partitions",))
async def committed(request: web.Request) -> web.Response:
    """Give what the group committed for the ``partitions`` of the body."""
    places = _partitions(await read_json(request))
    async with _instance(request) as instance:
        found = await request.app[INSTANCES].run(instance.committed_offsets, places)
    said = [
        {"topic": one.topic, "partition": one.partition, "offset": one.offset, "metadata": one.metadata or ""}
        for one in found
    ]
    return topic_routes.reply(request, {"offsets": said})


@accepts(body=("topics", "topic_pattern"))
async def subscribe(request: web.Request) -> web.Response:
    """Subscribe to ``topics``, or to those whose whole name a ``topic_pattern`` matches, now and later."""
    body = await read_json(request)
    names, text = body.get("topics"), body.get("topic_pattern")
    if names is not None and text is not None:
        raise api_error(
            RestCode.ILLEGAL_STATE, "the body has both topics and topic_pattern", "send one of them"
        )
    pattern = None
    if isinstance(text, str) and text:
        pattern = topic_pattern(text)
    elif not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
        raise api_error(UNPROCESSABLE, "the body names no topics", 'send {"topics": ["…"]}')
    check_consumes(request, names or ())
    for one in names or ():
        await topic_routes.ask(request, Cluster.check, one)
    async with _instance(request) as instance:
        if pattern is not None:
            await request.app[INSTANCES].run(instance.subscribe_pattern, _allowed(request, pattern))
        else:
            await request.app[INSTANCES].run(instance.subscribe, names)
    return web.Response(status=204)


def _allowed(request: web.Request, pattern: Pattern) -> Callable[[str], bool]:
    """Give what chooses the topics that a pattern matches, of those that the caller may read."""

    def matches(topic: str) -> bool:
        if pattern.fullmatch(topic) is None:
            return False
        try:
            check_consumes(request, [topic])
        except Forbidden:
            return False
        return not topic.startswith("__")

    return matches


def topic_pattern(text: str) -> Pattern:
    """Read a regular expression of a stranger: matching it takes linear time, whatever it says."""
    options = re2.Options()
    options.log_errors = False
    try:
        found: Pattern = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        raise api_error(
            UNPROCESSABLE,
            f"topic_pattern is no regular expression: {why}",
            "correct it; look-ahead and back-references are not served",
        ) from None
    return found


async def subscription(request: web.Request) -> web.Response:
    """Name the topics that are subscribed to."""
    async with _instance(request) as instance:
        found = await request.app[INSTANCES].run(instance.subscription)
    return topic_routes.reply(request, {"topics": found})


async def unsubscribe(request: web.Request) -> web.Response:
    """Give up the subscription, and with it the partitions."""
    async with _instance(request) as instance:
        await request.app[INSTANCES].run(instance.unsubscribe)
    return web.Response(status=204)


@accepts(body=("partitions",))
async def assign(request: web.Request) -> web.Response:
    """Read the ``partitions`` of the body, outside of the group's giving out."""
    places = _partitions(await read_json(request))
    check_consumes(request, {topic for topic, _ in places})
    for place in places:
        await topic_routes.ask(request, Cluster.check, *place)
    async with _instance(request) as instance:
        await request.app[INSTANCES].run(instance.assign, places)
    return web.Response(status=204)


async def assignment(request: web.Request) -> web.Response:
    """List the partitions that are read now."""
    async with _instance(request) as instance:
        found = await request.app[INSTANCES].run(instance.assignment)
    return topic_routes.reply(
        request, {"partitions": [{"topic": topic, "partition": at} for topic, at in found]}
    )


@accepts(body=("offsets",))
async def seek(request: web.Request) -> web.Response:
    """Read on from ``offsets``: each with ``topic``, ``partition`` and ``offset``."""
    found = produce_requests.places(await read_json(request), "offsets", produce_requests.OFFSET)
    return await _seek(request, [(one.topic, one.partition, one.offset) for one in found])


@accepts(body=("partitions",))
async def seek_to_beginning(request: web.Request) -> web.Response:
    """Read the ``partitions`` of the body from their first record."""
    places = _partitions(await read_json(request))
    return await _seek(request, [(*place, OFFSET_BEGINNING) for place in places])


@accepts(body=("partitions",))
async def seek_to_end(request: web.Request) -> web.Response:
    """Read the ``partitions`` of the body from what comes next."""
    places = _partitions(await read_json(request))
    return await _seek(request, [(*place, OFFSET_END) for place in places])


async def _seek(request: web.Request, offsets: list[tuple[str, int, int]]) -> web.Response:
    async with _instance(request) as instance:
        await request.app[INSTANCES].run(instance.seek, offsets)
    return web.Response(status=204)


def _partitions(body: dict[str, Any]) -> list[tuple[str, int]]:
    return [
        (one.topic, one.partition)
        for one in produce_requests.places(body, "partitions", produce_requests.PARTITION)
    ]


def _instance(request: web.Request) -> Any:
    return request.app[INSTANCES].use(*_which(request))


def _which(request: web.Request) -> tuple[str, str, str]:
    return request.match_info["group"], request.match_info["instance"], grant_of(request).user
