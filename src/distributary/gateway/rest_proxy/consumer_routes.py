"""Routes of versions 1 and 2 for consumer instances: ``/consumers/{group}``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from aiohttp import web
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

from distributary.auth.metering import KAFKA_CLIENT, charge
from distributary.errors import Forbidden
from distributary.gateway.error_codes import UNPROCESSABLE, RestCode, api_error
from distributary.gateway.gateway_access import CONFIG, check_consumes
from distributary.gateway.request_fields import accepts, number, read_json
from distributary.gateway.rest_proxy.consumer_instance import ConsumerInstance
from distributary.gateway.rest_proxy.consumer_requests import (
    COMMIT_FIELDS,
    OFFSET_FIELDS,
    SETTINGS,
    Pattern,
    base_uri,
    parse_offsets,
    parse_options,
    parse_partitions,
    parse_topic_pattern,
)
from distributary.gateway.rest_proxy.metadata_client import MetadataClient
from distributary.gateway.rest_proxy.proxy_requests import (
    CONSUMERS,
    MediaType,
    ask_kafka,
    json_reply,
    parse_accept,
    parse_content_type,
    records_reply,
    records_to_json,
)
from distributary.httpd.authorization import AUTHORIZATION, Requirement, Route, grant_of

_INSTANCE = "/consumers/{group}/instances/{instance}"
MAX_GROUP = 255
MAX_WAIT_MS = 60_000


def routes() -> list[Route]:
    """List the routes."""
    return [
        Route("POST", "/consumers/{group}", create, Requirement.GROUP),
        Route("DELETE", _INSTANCE, delete, Requirement.GROUP),
        Route("GET", _INSTANCE + "/topics/{topic}", read_topic, Requirement.GROUP),
        Route("GET", _INSTANCE + "/records", read_records, Requirement.GROUP),
        Route("POST", _INSTANCE + "/offsets", commit, Requirement.GROUP),
        Route("GET", _INSTANCE + "/offsets", list_committed, Requirement.GROUP),
        Route("POST", _INSTANCE + "/subscription", subscribe, Requirement.GROUP),
        Route("GET", _INSTANCE + "/subscription", show_subscription, Requirement.GROUP),
        Route("DELETE", _INSTANCE + "/subscription", unsubscribe, Requirement.GROUP),
        Route("POST", _INSTANCE + "/assignments", assign, Requirement.GROUP),
        Route("GET", _INSTANCE + "/assignments", list_assignments, Requirement.GROUP),
        Route("POST", _INSTANCE + "/positions", seek, Requirement.GROUP),
        Route("POST", _INSTANCE + "/positions/beginning", seek_to_beginning, Requirement.GROUP),
        Route("POST", _INSTANCE + "/positions/end", seek_to_end, Requirement.GROUP),
    ]


@accepts(body=SETTINGS, error_code=RestCode.INVALID_CONSUMER_CONFIG)
async def create(request: web.Request) -> web.Response:
    """Create a consumer instance in a group; returns ``instance_id`` and ``base_uri``, its address."""
    group = request.match_info["group"]
    if len(group) > MAX_GROUP or not group.isprintable():
        raise api_error(
            RestCode.INVALID_CONSUMER_CONFIG,
            "invalid consumer group name",
            f"use at most {MAX_GROUP} printable characters",
        )
    options = parse_options(await read_json(request, empty={}))
    limiter, grant = request.app[AUTHORIZATION].limiter, grant_of(request)
    shares = limiter.consumer_reservations(grant)
    await limiter.reservations.take(shares)
    release = partial(limiter.reservations.release, shares)
    try:
        instance = await request.app[CONSUMERS].create(group, options, owner=grant.user, on_close=release)
    except BaseException:
        release()
        raise
    charge(KAFKA_CLIENT)
    address = base_uri(
        group,
        instance.name,
        advertised=request.app[CONFIG].gateway.advertised_url,
        host=request.host,
        scheme=request.scheme,
        headers=request.headers,
    )
    return json_reply(request, {"instance_id": instance.name, "base_uri": address})


async def delete(request: web.Request) -> web.Response:
    """Delete an instance; others of its group take over its partitions."""
    await request.app[CONSUMERS].remove(*_instance_key(request))
    return web.Response(status=204)


# --- records ---


@accepts(query=("timeout", "max_bytes"))
async def read_topic(request: web.Request) -> web.Response:
    """Read a topic (version 1); the first read subscribes to it. Waits for records; ``[]`` if none came."""
    topic = request.match_info["topic"]
    check_consumes(request, [topic])
    async with _use_instance(request) as instance:
        if instance.topics not in ((), (topic,)):
            raise api_error(
                RestCode.CONSUMER_ALREADY_SUBSCRIBED,
                f"the instance is subscribed to {', '.join(instance.topics)}",
                f"create another instance for {topic}",
            )
        if not instance.topics:
            await ask_kafka(request, MetadataClient.check, topic)
            await request.app[CONSUMERS].run(instance.subscribe, [topic])
        return await _read(request, instance, 1)


@accepts(query=("timeout", "max_bytes"))
async def read_records(request: web.Request) -> web.Response:
    """Read what is subscribed or assigned (version 2). Waits for records, at most ``timeout`` ms."""
    async with _use_instance(request) as instance:
        if not await request.app[CONSUMERS].run(instance.has_source):
            raise api_error(
                RestCode.ILLEGAL_STATE,
                "the instance has neither a subscription nor assignments",
                "create a subscription by POST …/subscription",
            )
        return await _read(request, instance, 2)


async def _read(request: web.Request, instance: ConsumerInstance, version: int) -> web.Response:
    options = instance.options
    format = parse_accept(request.headers.get("Accept", "")).format or options.format
    if format != options.format:
        raise api_error(
            RestCode.CONSUMER_FORMAT_MISMATCH,
            f"the instance was created for {options.format}, not {format}",
            "accept its format, or create another instance",
        )
    settings = request.app[CONFIG].gateway
    default_wait = settings.poll_timeout if options.wait is None else options.wait
    wait_ms = number(request, "timeout", -1, low=-1, high=MAX_WAIT_MS)
    max_bytes = number(request, "max_bytes", settings.max_body, low=-1)
    wait = default_wait if wait_ms < 0 else wait_ms / 1000
    await request.app[CONSUMERS].run_until(instance.fetch, wait)
    messages = instance.peek(min(max_bytes, settings.max_body) if max_bytes > 0 else settings.max_body)
    records = await records_to_json(request, messages, format, with_topic=version == 2)
    instance.take(len(records))
    return records_reply(records, MediaType(version, format))


# --- offsets ---


@accepts(body=("offsets",))
async def commit(request: web.Request) -> web.Response:
    """Commit what was read, or the ``offsets`` of the body, each with ``topic, partition, offset``."""
    body = await read_json(request, empty={})
    chosen = parse_offsets(body, "offsets", COMMIT_FIELDS) if "offsets" in body else None
    async with _use_instance(request) as instance:
        await request.app[CONSUMERS].run(instance.commit, chosen)
        state = [
            {
                "topic": topic,
                "partition": partition,
                "consumed": offset,
                "committed": instance.committed.get((topic, partition)),
            }
            for (topic, partition), offset in instance.consumed.items()
        ]
    version = parse_content_type(request.headers.get("Content-Type", "")).version
    return json_reply(request, state if version == 1 else [])


@accepts(body=("partitions",))
async def list_committed(request: web.Request) -> web.Response:
    """Return what the group committed for the ``partitions`` of the body."""
    partitions = parse_partitions(await read_json(request))
    async with _use_instance(request) as instance:
        found = await request.app[CONSUMERS].run(instance.committed_offsets, partitions)
    offsets = [
        {"topic": one.topic, "partition": one.partition, "offset": one.offset, "metadata": one.metadata or ""}
        for one in found
    ]
    return json_reply(request, {"offsets": offsets})


# --- what to read ---


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
        pattern = parse_topic_pattern(text)
    elif not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise api_error(UNPROCESSABLE, "the body names no topics", 'send {"topics": ["…"]}')
    check_consumes(request, names or ())
    for name in names or ():
        await ask_kafka(request, MetadataClient.check, name)
    async with _use_instance(request) as instance:
        if pattern is not None:
            matches = _readable_match(request, pattern)
            await request.app[CONSUMERS].run(instance.subscribe_pattern, matches)
        else:
            await request.app[CONSUMERS].run(instance.subscribe, names)
    return web.Response(status=204)


def _readable_match(request: web.Request, pattern: Pattern) -> Callable[[str], bool]:
    """Return a function that tells whether a topic matches a pattern and the caller may read it."""

    def matches(topic: str) -> bool:
        if pattern.fullmatch(topic) is None:
            return False
        try:
            check_consumes(request, [topic])
        except Forbidden:
            return False
        return not topic.startswith("__")

    return matches


async def show_subscription(request: web.Request) -> web.Response:
    """List the topics that the instance is subscribed to."""
    async with _use_instance(request) as instance:
        topics = await request.app[CONSUMERS].run(instance.subscription)
    return json_reply(request, {"topics": topics})


async def unsubscribe(request: web.Request) -> web.Response:
    """End the subscription, and with it the assignment of partitions."""
    async with _use_instance(request) as instance:
        await request.app[CONSUMERS].run(instance.unsubscribe)
    return web.Response(status=204)


@accepts(body=("partitions",))
async def assign(request: web.Request) -> web.Response:
    """Read the ``partitions`` of the body, independently of the group's assignment."""
    partitions = parse_partitions(await read_json(request))
    check_consumes(request, {topic for topic, _ in partitions})
    for partition in partitions:
        await ask_kafka(request, MetadataClient.check, *partition)
    async with _use_instance(request) as instance:
        await request.app[CONSUMERS].run(instance.assign, partitions)
    return web.Response(status=204)


async def list_assignments(request: web.Request) -> web.Response:
    """List the partitions that the instance reads now."""
    async with _use_instance(request) as instance:
        found = await request.app[CONSUMERS].run(instance.assignment)
    partitions = [{"topic": topic, "partition": partition} for topic, partition in found]
    return json_reply(request, {"partitions": partitions})


@accepts(body=("offsets",))
async def seek(request: web.Request) -> web.Response:
    """Continue reading at ``offsets``: each with ``topic``, ``partition`` and ``offset``."""
    found = parse_offsets(await read_json(request), "offsets", OFFSET_FIELDS)
    return await _seek(request, [(one.topic, one.partition, one.offset) for one in found])


@accepts(body=("partitions",))
async def seek_to_beginning(request: web.Request) -> web.Response:
    """Continue reading the ``partitions`` of the body at their first record."""
    partitions = parse_partitions(await read_json(request))
    return await _seek(request, [(*partition, OFFSET_BEGINNING) for partition in partitions])


@accepts(body=("partitions",))
async def seek_to_end(request: web.Request) -> web.Response:
    """Continue reading the ``partitions`` of the body at their end."""
    partitions = parse_partitions(await read_json(request))
    return await _seek(request, [(*partition, OFFSET_END) for partition in partitions])


async def _seek(request: web.Request, offsets: list[tuple[str, int, int]]) -> web.Response:
    async with _use_instance(request) as instance:
        await request.app[CONSUMERS].run(instance.seek, offsets)
    return web.Response(status=204)


def _use_instance(request: web.Request) -> AbstractAsyncContextManager[ConsumerInstance]:
    return request.app[CONSUMERS].use(*_instance_key(request))


def _instance_key(request: web.Request) -> tuple[str, str, str]:
    return request.match_info["group"], request.match_info["instance"], grant_of(request).user
