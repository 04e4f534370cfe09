"""Producing by versions 1 and 2: ``POST /topics/{topic}[/partitions/{partition}]``.

A request is checked as a whole before any of it is written: topic, partitions, schemas, every key and value.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from distributary.auth.metering import charge_records
from distributary.errors import DistributaryError
from distributary.gateway.error_codes import UNPROCESSABLE, RestCode, api_error
from distributary.gateway.gateway_access import user_of
from distributary.gateway.registry.registry_requests import SCHEMA_LOG, schema_checker
from distributary.gateway.registry.schema_checker import DEADLINE
from distributary.gateway.request_fields import accepts
from distributary.gateway.rest_proxy import media_types, produce_requests, topic_routes
from distributary.gateway.rest_proxy.converter import Converter
from distributary.gateway.rest_proxy.metadata_client import Cluster
from distributary.gateway.rest_proxy.record_schemas import (
    check_kind,
    known_by_id,
    parsed,
    registered,
    schema_by_id,
)
from distributary.gateway.rest_proxy.serialization import KIND_OF, Known
from distributary.gateway.rest_proxy.subjects import subject_of
from distributary.httpd.authorization import Requirement, Route, grant_of
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.topic_writer import TopicWriter, Written

WRITER: web.AppKey[TopicWriter] = web.AppKey("writer", TopicWriter)


def routes() -> list[Route]:
    """List the addresses for producing."""
    return [
        Route(
            "POST",
            "/topics/{topic}",
            to_topic,
            Requirement.PRODUCE,
            'The body is `{"records": [{"key", "value", "partition"}]}`, with `value_schema` '
            "or `value_schema_id` (and likewise for keys) where the format has schemas. The format is in the "
            "`Content-Type`.",
        ),
        Route("POST", "/topics/{topic}/partitions/{partition}", to_partition, Requirement.PRODUCE),
    ]


@accepts(body=produce_requests.Batch.__struct_fields__)
async def to_topic(request: web.Request) -> web.Response:
    """Write records to a topic; each may say its ``partition``, else its key chooses one."""
    return await _produce(request, request.match_info["topic"], None)


@accepts(body=produce_requests.Batch.__struct_fields__)
async def to_partition(request: web.Request) -> web.Response:
    """Write records to one partition."""
    return await _produce(request, *topic_routes.place(request))


async def _produce(request: web.Request, topic: str, partition: int | None) -> web.Response:
    kind = media_types.of_body(request.headers.get("Content-Type", ""))
    format = kind.format or "binary"
    body = produce_requests.batch(await request.read())
    if not body.records:
        raise api_error(UNPROCESSABLE, "there are no records in the body", 'send {"records": [{…}]}')
    await _check_places(request, topic, partition, body)
    keys, values = await _schemas(request, topic, format, body)
    convert = Converter(request.app[DEADLINE], user_of(request))
    made = [
        await convert.encode(
            format,
            [bytes(getattr(one, name)) for one in body.records],
            known,
            [f"the {name} of record {at}" for at in range(len(body.records))],
        )
        for name, known in (("value", values), ("key", keys))
    ]
    records = [
        OutgoingRecord(
            topic,
            value,
            key,
            _place(one.partition if partition is None else partition),
            sender=user_of(request),
        )
        for one, value, key in zip(body.records, *made, strict=True)
    ]
    writer = request.app[WRITER]
    charge_records(len(records))
    sent = await asyncio.gather(*map(writer.send, records), return_exceptions=True)
    said = {
        "key_schema_id": keys.id if keys else None,
        "value_schema_id": values.id if values else None,
        "offsets": [_told(one) for one in sent],
    }
    return topic_routes.reply(request, said)


async def _check_places(
    request: web.Request, topic: str, partition: int | None, body: produce_requests.Batch
) -> None:
    wanted = {item.partition for item in body.records if item.partition is not None}
    if partition is not None:
        await check_place(request, topic, partition)
        if wanted - {partition}:
            raise api_error(UNPROCESSABLE, "a record names another partition than the address does")
        return
    for number in {min(wanted), max(wanted)} if wanted else {None}:
        await check_place(request, topic, number)


async def check_place(request: web.Request, topic: str, partition: int | None) -> None:
    """Raise unless there are topic and partition; then records can be written there."""
    await topic_routes.ask(request, Cluster.check, topic, partition)
    if partition is not None:
        await request.app[WRITER].prepare(topic, partition)


async def _schemas(
    request: web.Request, topic: str, format: str, body: produce_requests.Batch
) -> tuple[Known | None, Known | None]:
    if format not in KIND_OF:
        for name in produce_requests.SCHEMAS:
            if getattr(body, name) is not None:
                raise api_error(
                    UNPROCESSABLE,
                    f"the body has {name}, and {format} records have no schema",
                    "leave it out, or send application/vnd.kafka.avro.v2+json or …jsonschema.v2+json",
                )
        return None, None
    log = request.app[SCHEMA_LOG]
    found: list[Known | None] = []
    for name, number, text, given, missing in (
        (
            "key",
            body.key_schema_id,
            body.key_schema,
            [one.key for one in body.records],
            RestCode.KEY_SCHEMA_MISSING,
        ),
        (
            "value",
            body.value_schema_id,
            body.value_schema,
            [one.value for one in body.records],
            RestCode.VALUE_SCHEMA_MISSING,
        ),
    ):
        if number is not None and text is not None:
            raise api_error(
                UNPROCESSABLE,
                f"the body has both {name}_schema and {name}_schema_id",
                "send one of them",
            )
        if number is not None:
            id = produce_requests.id_of(number)
            schema = await schema_by_id(log, id)
            check_kind(schema, format, name)
            found.append(await known_by_id(log, subject_of(topic, name, schema), id, schema))
        elif text is not None:
            schema = await parsed(schema_checker(request), text, format)
            subject = subject_of(topic, name, schema)
            found.append(await registered(schema_checker(request), log, subject, schema, grant_of(request)))
        elif any(bytes(one) != b"null" for one in given):
            raise api_error(
                missing, f"there are {name}s, but no {name}_schema", f"send {name}_schema or {name}_schema_id"
            )
        else:
            found.append(None)
    return found[0], found[1]


def _place(partition: int | None) -> int:
    return -1 if partition is None else partition


def _told(sent: Written | BaseException) -> dict[str, Any]:
    if isinstance(sent, Written) and not sent.reason:
        return {"partition": sent.partition, "offset": sent.offset, "error_code": None, "error": None}
    if isinstance(sent, Written):
        code, said = 1, unfit(sent)
    elif isinstance(sent, DistributaryError):
        code, said = 2 if sent.retry else 1, sent.message
    else:
        raise sent
    return {"partition": None, "offset": None, "error_code": code, "error": said}


def unfit(letter: Written) -> str:
    """What a client is told of a record that became a dead letter."""
    return f"it does not fit ({letter.reason}), and is kept in {letter.topic}"
