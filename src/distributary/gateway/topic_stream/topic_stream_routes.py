"""``GET /v1/topics/{topic}/stream``: server-sent events, or WebSocket messages where that is asked for.

The first event, ``ready``, and every record carry an id, by which a client goes on with nothing missing and
nothing twice. ``gap`` tells of records that were deleted before they could be told, or of a topic that was
made anew and is told from its beginning. A record that is not of the asked format comes as ``unreadable``, in
base64. ``end`` says why the gateway ends the stream.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import WSMsgType, web
from confluent_kafka import Message

from distributary.auth.metering import KAFKA_CLIENT, charge
from distributary.errors import DistributaryError, GatewayError
from distributary.gateway.gateway_access import CONFIG, still_permitted, user_of
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.registry_requests import SCHEMA_LOG
from distributary.gateway.registry.schema_checker import DEADLINE
from distributary.gateway.request_fields import accepts
from distributary.gateway.response_bodies import number_of
from distributary.gateway.rest_proxy import topic_routes
from distributary.gateway.rest_proxy.consumer_routes import INSTANCES
from distributary.gateway.rest_proxy.converter import Converter
from distributary.gateway.rest_proxy.metadata_client import Cluster, no_partition
from distributary.gateway.rest_proxy.record_schemas import finder
from distributary.gateway.rest_proxy.serialization import KIND_OF
from distributary.gateway.topic_stream import stream_cursor
from distributary.gateway.topic_stream.topic_reader import Follow, Gap
from distributary.httpd.authorization import AUTHORIZATION, Requirement, Route, grant_of
from distributary.httpd.listener import client_of

HEARTBEAT = 15.0
RETRY_MS = 1000
PERMITTED = 1.0
"""Seconds for which a stream goes on before it is asked again whether its token counts."""

OPEN: web.AppKey[set[asyncio.Task[Any]]] = web.AppKey("streams", set[asyncio.Task[Any]])

Write = Callable[[str, str, dict[str, Any]], Awaitable[None]]
"""Tells an event: its name ("" for a record), its id ("" for none), its data."""


def routes() -> list[Route]:
    """List the address."""
    return [
        Route(
            "GET",
            "/v1/topics/{topic}/stream",
            stream,
            Requirement.CONSUME,
            "Parameters: one of `from` (`earliest`, `latest`), `offset`, `offsets` "
            "(`0:12,1:40`), `time` (ISO 8601, or ms) and `group` (what it committed); "
            "`partition` (repeated), `format` (`json`, `binary`, `avro`, `jsonschema`) and `last_event_id` "
            "where the header `Last-Event-ID` cannot be sent.",
            allow_head=False,
        )
    ]


@accepts(query=stream_cursor.PARAMETERS)
async def stream(request: web.Request) -> web.StreamResponse:
    """Push a topic's records as they come, by server-sent events or WebSocket."""
    topic = request.match_info["topic"]
    asked = stream_cursor.asked(request.query, request.headers.get("Last-Event-ID", ""))
    count = await topic_routes.ask(request, Cluster.check, topic)
    for number in asked.partitions:
        if number >= count:
            raise no_partition(topic, number)
    instances = request.app[INSTANCES]
    task = asyncio.current_task()
    assert task is not None
    limiter, grant = request.app[AUTHORIZATION].limiter, grant_of(request)
    shares = [*limiter.connection(grant, client_of(request)), *limiter.consumer(grant)]
    async with limiter.usage.using(shares), instances.place():
        charge(KAFKA_CLIENT)
        cluster = request.app[topic_routes.CLUSTER]
        follow = await instances.run(Follow, request.app[CONFIG].kafka, cluster, topic, asked)
        request.app[OPEN].add(task)
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await _websocket(request, follow, asked.format)
            return await _events(request, follow, asked.format)
        finally:
            request.app[OPEN].discard(task)
            await asyncio.shield(instances.run(follow.close))


async def _events(request: web.Request, follow: Follow, format: str) -> web.StreamResponse:
    reply = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    await reply.prepare(request)
    await reply.write(b"retry: %d\n\n" % RETRY_MS)
    quiet = 0.0

    async def write(name: str, id: str, data: dict[str, Any]) -> None:
        nonlocal quiet
        lines = [f"event: {name}"] if name else []
        lines += [f"id: {id}"] if id else []
        quiet = asyncio.get_running_loop().time()
        # JSON as we write it has no line breaks; what was sent to us as JSON may.
        body = msgspec.json.encode(data).replace(b"\n", b" ").replace(b"\r", b" ")
        await reply.write("".join(f"{line}\n" for line in lines).encode() + b"data: " + body + b"\n\n")

    async def beat() -> None:
        nonlocal quiet
        if asyncio.get_running_loop().time() - quiet > HEARTBEAT:
            quiet = asyncio.get_running_loop().time()
            await reply.write(b": still here\n\n")

    with contextlib.suppress(ConnectionError):
        await _pump(request, follow, format, write, beat)
    return reply


async def _websocket(request: web.Request, follow: Follow, format: str) -> web.StreamResponse:
    socket = web.WebSocketResponse(heartbeat=HEARTBEAT, max_msg_size=4096)
    await socket.prepare(request)

    async def write(name: str, id: str, data: dict[str, Any]) -> None:
        said = ({"event": name} if name else {}) | ({"id": id} if id else {}) | data
        await socket.send_str(msgspec.json.encode(said).decode())

    async def alive() -> None:
        if socket.closed:
            raise ConnectionResetError

    async def listen() -> None:
        async for message in socket:  # what a client says means nothing; that it goes does
            if message.type == WSMsgType.ERROR:
                return

    listening = asyncio.create_task(listen())
    try:
        with contextlib.suppress(ConnectionError):
            await _pump(request, follow, format, write, alive)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await socket.close(code=1001)
    return socket


async def _pump(
    request: web.Request, follow: Follow, format: str, write: Write, beat: Callable[[], Awaitable[None]]
) -> None:
    """Tell what there is until either side ends it. A client that reads slowly is waited for.

    A user who took too much processor time waits, as it does with requests.
    """

    def id() -> str:
        return stream_cursor.write(follow.positions, follow.topic_id)

    await write("ready", id(), {"positions": _named(follow.positions)})
    convert = Converter(request.app[DEADLINE], user_of(request))
    clock = asyncio.get_running_loop().time
    asked = clock()
    limiter, grant = request.app[AUTHORIZATION].limiter, grant_of(request)
    while True:
        try:
            if limiter.owes(grant):
                await limiter.settle(grant)
            found = await request.app[INSTANCES].run_until(follow.read)
            if clock() - asked > PERMITTED:
                await still_permitted(request)
                asked = clock()
        except DistributaryError as error:
            await write("end", "", {"error_code": number_of(error), "message": str(error)})
            return
        messages = [one for one in found if isinstance(one, Message)]
        find = await finder(request.app[SCHEMA_LOG], messages) if format in KIND_OF else _none
        for one in found:
            follow.told(one)
            name, said = _gap(one) if isinstance(one, Gap) else await _record(one, format, find, convert)
            await write(name, id(), said)
        await beat()


def _gap(gap: Gap) -> tuple[str, dict[str, Any]]:
    return "gap", gap._asdict()


async def _record(
    message: Message, format: str, find: Callable[[int], Schema | None], convert: Converter
) -> tuple[str, dict[str, Any]]:
    said: dict[str, Any] = {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
    }
    headers = message.headers()
    if headers:
        said["headers"] = [{"name": name, "value": _base64(data)} for name, data in _pairs(headers)]
    key, value = message.key(), message.value()
    try:
        return "", said | {
            "key": await _key(key, format, find, convert),
            "value": await convert.decode(format, value, find, "the value"),
        }
    except GatewayError as error:
        return "unreadable", said | {
            "key": _base64(key),
            "value": _base64(value),
            "message": error.message,
        }


async def _key(
    key: bytes | None, format: str, find: Callable[[int], Schema | None], convert: Converter
) -> Any:
    """Keys are texts more often than JSON: one that is not of the format is told as a text if it is one."""
    try:
        return await convert.decode(format, key, find, "the key")
    except GatewayError:
        try:
            return (key or b"").decode()
        except UnicodeDecodeError:
            raise GatewayError("the key is neither of the format nor text") from None


def _pairs(headers: Any) -> list[tuple[str, Any]]:
    return list(headers.items() if isinstance(headers, dict) else headers)


def _base64(data: Any) -> str | None:
    raw = data.encode() if isinstance(data, str) else data
    return None if raw is None else base64.b64encode(raw).decode()


def _named(positions: dict[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in positions.items()}


def _none(number: int) -> None:
    return None
