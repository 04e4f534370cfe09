"""Producing by versions 1 and 2: ``POST /topics/{topic}[/partitions/{partition}]``.

A request is checked as a whole before any of it is written: topic, partitions, schemas, every key and value.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from distributary.gateway import refuse as numbers
from distributary.gateway.proxy import bodies, media, metadata
from distributary.gateway.proxy.cluster import Cluster
from distributary.gateway.proxy.formats import KIND_OF, Known, encode
from distributary.gateway.proxy.producer import Outgoing, Sent, TopicWriter
from distributary.gateway.proxy.schemas import known_by_id, known_by_text
from distributary.gateway.refuse import refuse
from distributary.gateway.schemas.routes import LOG

WRITER: web.AppKey[TopicWriter] = web.AppKey("writer", TopicWriter)


def routes() -> list[web.RouteDef]:
    """List the addresses for producing."""
    return [
        web.post("/topics/{topic}", to_topic),
        web.post("/topics/{topic}/partitions/{partition}", to_partition),
    ]


async def to_topic(request: web.Request) -> web.Response:
    """Write records to a topic; each may say its ``partition``, else its key chooses one."""
    return await _produce(request, request.match_info["topic"], None)


async def to_partition(request: web.Request) -> web.Response:
    """Write records to one partition."""
    return await _produce(request, *metadata.place(request))


async def _produce(request: web.Request, topic: str, partition: int | None) -> web.Response:
    kind = media.of_body(request.headers.get("Content-Type", ""))
    format = kind.format or "binary"
    body = bodies.batch(await request.read())
    if not body.records:
        raise refuse(numbers.UNPROCESSABLE, "there are no records in the body", 'send {"records": [{…}]}')
    await _check_places(request, topic, partition, body)
    keys, values = await _schemas(request, topic, format, body)
    records = [
        Outgoing(
            encode(format, item.key, keys, f"the key of record {at}"),
            encode(format, item.value, values, f"the value of record {at}"),
            item.partition if partition is None else partition,
        )
        for at, item in enumerate(body.records)
    ]
    writer = request.app[WRITER]
    sent = await asyncio.gather(*(writer.send(topic, record) for record in records))
    said = {
        "key_schema_id": keys.id if keys else None,
        "value_schema_id": values.id if values else None,
        "offsets": [_told(one) for one in sent],
    }
    return metadata.reply(request, said)


async def _check_places(request: web.Request, topic: str, partition: int | None, body: bodies.Batch) -> None:
    if partition is None:
        wanted = [item.partition for item in body.records if item.partition is not None]
        for number in {min(wanted), max(wanted)} if wanted else {None}:
            await metadata.ask(request, Cluster.check, topic, number)
        return
    await metadata.ask(request, Cluster.check, topic, partition)
    if any(item.partition not in (None, partition) for item in body.records):
        raise refuse(numbers.UNPROCESSABLE, "a record names another partition than the address does")


async def _schemas(
    request: web.Request, topic: str, format: str, body: bodies.Batch
) -> tuple[Known | None, Known | None]:
    if format not in KIND_OF:
        return None, None
    log = request.app[LOG]
    found: list[Known | None] = []
    for name, number, text, given, missing in (
        ("key", body.key_schema_id, body.key_schema, [one.key for one in body.records], numbers.KEY_SCHEMA),
        (
            "value",
            body.value_schema_id,
            body.value_schema,
            [one.value for one in body.records],
            numbers.VALUE_SCHEMA,
        ),
    ):
        if number is not None:
            found.append(await known_by_id(log, number, format))
        elif text is not None:
            found.append(await known_by_text(log, f"{topic}-{name}", text, format))
        elif any(bytes(one) != b"null" for one in given):
            raise refuse(
                missing, f"there are {name}s, but no {name}_schema", f"send {name}_schema or {name}_schema_id"
            )
        else:
            found.append(None)
    return found[0], found[1]


def _told(sent: Sent) -> dict[str, Any]:
    if not sent.error:
        return {"partition": sent.partition, "offset": sent.offset, "error_code": None, "error": None}
    code = 2 if sent.retriable else 1
    return {"partition": None, "offset": None, "error_code": code, "error": sent.error}
