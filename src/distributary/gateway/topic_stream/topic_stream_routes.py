"""``GET /v1/topics/{topic}/stream``: server-sent events or, if the client asks for them, WebSocket messages.

The first event, ``ready``, and every record carry an id, by which a client resumes with nothing missing and
nothing twice. ``gap`` reports records that were deleted before they could be sent, or a topic that was
deleted and created again and is sent from its beginning. A record that is not of the requested format is sent
as ``unreadable``, in base64. ``end`` has the reason why the gateway ends the stream.
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
from distributary.gateway.gateway_access import CONFIG, still_permitted
from distributary.gateway.gateway_errors import code_of
from distributary.gateway.request_fields import accepts
from distributary.gateway.rest_proxy.metadata_client import MetadataClient, partition_not_found
from distributary.gateway.rest_proxy.proxy_requests import (
    CONSUMERS,
    METADATA,
    ask_kafka,
    converter,
    find_schemas,
)
from distributary.gateway.rest_proxy.serialization import FindSchema, RecordConverter
from distributary.gateway.topic_stream.stream_cursor import PARAMETERS, format_cursor, parse_stream_request
from distributary.gateway.topic_stream.topic_reader import Gap, TopicReader
from distributary.httpd.authorization import AUTHORIZATION, Requirement, Route, grant_of
from distributary.httpd.listener import client_of

HEARTBEAT = 15.0
RETRY_MS = 1000
RECHECK_INTERVAL = 1.0
"""Seconds after which a stream checks again whether its token is still valid."""

STREAMS: web.AppKey[set[asyncio.Task[Any]]] = web.AppKey("streams", set[asyncio.Task[Any]])
"""The tasks of open streams."""

SendEvent = Callable[[str, str, dict[str, Any]], Awaitable[None]]
"""Sends an event: its name ("" for a record), its id ("" for none), its data."""


def routes() -> list[Route]:
    """List the routes."""
    return [
        Route(
            "GET",
            "/v1/topics/{topic}/stream",
            stream,
            Requirement.CONSUME,
            "Parameters: one of `from` (`earliest`, `latest`), `offset`, `offsets` (`0:12,1:40`), `time` "
            "(ISO 8601, or ms) and `group` (at its committed offsets); `partition` (repeated), `format` "
            "(`json`, `binary`, `avro`, `jsonschema`), and `last_event_id` where the header `Last-Event-ID` "
            "cannot be sent.",
            allow_head=False,
        )
    ]


@accepts(query=PARAMETERS)
async def stream(request: web.Request) -> web.StreamResponse:
    """Push a topic's records as they arrive, by server-sent events or WebSocket."""
    topic = request.match_info["topic"]
    wanted = parse_stream_request(request.query, request.headers.get("Last-Event-ID", ""))
    count = await ask_kafka(request, MetadataClient.check, topic)
    for number in wanted.partitions:
        if number >= count:
            raise partition_not_found(topic, number)
    consumers = request.app[CONSUMERS]
    task = asyncio.current_task()
    assert task is not None
    limiter, grant = request.app[AUTHORIZATION].limiter, grant_of(request)
    shares = [
        *limiter.connection_reservations(grant, client_of(request)),
        *limiter.consumer_reservations(grant),
    ]
    async with limiter.reservations.holding(shares), consumers.slot():
        charge(KAFKA_CLIENT)
        kafka, metadata = request.app[CONFIG].kafka, request.app[METADATA]
        reader = await consumers.run(TopicReader, kafka, metadata, topic, wanted)
        request.app[STREAMS].add(task)
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await _stream_websocket(request, reader, wanted.format)
            return await _stream_events(request, reader, wanted.format)
        finally:
            request.app[STREAMS].discard(task)
            await asyncio.shield(consumers.run(reader.close))


async def _stream_events(request: web.Request, reader: TopicReader, format: str) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    await response.prepare(request)
    await response.write(b"retry: %d\n\n" % RETRY_MS)
    last_sent = 0.0

    async def send(name: str, id: str, data: dict[str, Any]) -> None:
        nonlocal last_sent
        lines = [f"event: {name}"] if name else []
        lines += [f"id: {id}"] if id else []
        last_sent = asyncio.get_running_loop().time()
        # JSON that we encode has no line breaks; JSON that a producer sent may have.
        body = msgspec.json.encode(data).replace(b"\n", b" ").replace(b"\r", b" ")
        await response.write("".join(f"{line}\n" for line in lines).encode() + b"data: " + body + b"\n\n")

    async def heartbeat() -> None:
        nonlocal last_sent
        if asyncio.get_running_loop().time() - last_sent > HEARTBEAT:
            last_sent = asyncio.get_running_loop().time()
            await response.write(b": still here\n\n")

    with contextlib.suppress(ConnectionError):
        await _send_records(request, reader, format, send, heartbeat)
    return response


async def _stream_websocket(request: web.Request, reader: TopicReader, format: str) -> web.StreamResponse:
    socket = web.WebSocketResponse(heartbeat=HEARTBEAT, max_msg_size=4096)
    await socket.prepare(request)

    async def send(name: str, id: str, data: dict[str, Any]) -> None:
        message = ({"event": name} if name else {}) | ({"id": id} if id else {}) | data
        await socket.send_str(msgspec.json.encode(message).decode())

    async def check_open() -> None:
        if socket.closed:
            raise ConnectionResetError

    async def receive() -> None:
        async for message in socket:  # messages are ignored; a closed connection ends the loop
            if message.type == WSMsgType.ERROR:
                return

    receiving = asyncio.create_task(receive())
    try:
        with contextlib.suppress(ConnectionError):
            await _send_records(request, reader, format, send, check_open)
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        await socket.close(code=1001)
    return socket


async def _send_records(
    request: web.Request,
    reader: TopicReader,
    format: str,
    send: SendEvent,
    heartbeat: Callable[[], Awaitable[None]],
) -> None:
    """Send records until either side ends the stream. A client that reads slowly is waited for.

    The stream of a user who exceeded the limit of processor time waits, as requests do.
    """

    def cursor() -> str:
        return format_cursor(reader.positions, reader.topic_id)

    positions = {str(partition): offset for partition, offset in reader.positions.items()}
    await send("ready", cursor(), {"positions": positions})
    convert = converter(request)
    clock = asyncio.get_running_loop().time
    checked = clock()
    limiter, grant = request.app[AUTHORIZATION].limiter, grant_of(request)
    while True:
        try:
            if limiter.is_in_debt(grant):
                await limiter.wait_until_paid(grant)
            found = await request.app[CONSUMERS].run_until(reader.read)
            if clock() - checked > RECHECK_INTERVAL:
                await still_permitted(request)
                checked = clock()
        except DistributaryError as error:
            await send("end", "", {"error_code": code_of(error), "message": str(error)})
            return
        find = await find_schemas(request, format, [one for one in found if isinstance(one, Message)])
        for one in found:
            reader.advance(one)
            if isinstance(one, Gap):
                await send("gap", cursor(), one._asdict())
            else:
                name, data = await _record_event(one, format, find, convert)
                await send(name, cursor(), data)
        await heartbeat()


async def _record_event(
    message: Message, format: str, find: FindSchema, convert: RecordConverter
) -> tuple[str, dict[str, Any]]:
    """Return the name and data of a record's event."""
    data: dict[str, Any] = {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
    }
    headers = message.headers()
    if headers:
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        data["headers"] = [{"name": name, "value": _base64(value)} for name, value in pairs]
    key, value = message.key(), message.value()
    try:
        return "", data | {
            "key": await _decode_key(key, format, find, convert),
            "value": await convert.decode(format, value, find, "the value"),
        }
    except GatewayError as error:
        return "unreadable", data | {
            "key": _base64(key),
            "value": _base64(value),
            "message": error.message,
        }


async def _decode_key(key: bytes | None, format: str, find: FindSchema, convert: RecordConverter) -> Any:
    """Decode a key by the format or, since keys are strings more often than JSON, as a string."""
    try:
        return await convert.decode(format, key, find, "the key")
    except GatewayError:
        try:
            return (key or b"").decode()
        except UnicodeDecodeError:
            raise GatewayError("the key is neither of the format nor UTF-8") from None


def _base64(data: Any) -> str | None:
    raw = data.encode() if isinstance(data, str) else data
    return None if raw is None else base64.b64encode(raw).decode()
