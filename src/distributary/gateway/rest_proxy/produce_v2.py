"""Produces by versions 1 and 2: ``POST /topics/{topic}[/partitions/{partition}]``.

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
from distributary.gateway.registry.registry_requests import SCHEMA_LOG
from distributary.gateway.request_fields import accepts
from distributary.gateway.rest_proxy.produce_requests import (
    SCHEMA_FIELDS,
    ProduceRequest,
    parse_request,
    parse_schema_id,
)
from distributary.gateway.rest_proxy.proxy_requests import (
    WRITER,
    converter,
    dead_letter_message,
    json_reply,
    parse_content_type,
    partition_in_path,
    require_partition,
)
from distributary.gateway.rest_proxy.record_schemas import (
    check_kind,
    find_or_register,
    parse_sent_schema,
    require_subject,
    schema_by_id,
    subject_for,
)
from distributary.gateway.rest_proxy.serialization import SCHEMA_KINDS, RegisteredSchema
from distributary.httpd.authorization import Requirement, Route
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import Delivered


def routes() -> list[Route]:
    """List the routes."""
    return [
        Route(
            "POST",
            "/topics/{topic}",
            produce_to_topic,
            Requirement.PRODUCE,
            'The body is `{"records": [{"key", "value", "partition"}]}`, with `value_schema` or '
            "`value_schema_id` (and the same for keys) if the format has schemas. The `Content-Type` gives "
            "the format.",
        ),
        Route("POST", "/topics/{topic}/partitions/{partition}", produce_to_partition, Requirement.PRODUCE),
    ]


@accepts(body=ProduceRequest.__struct_fields__)
async def produce_to_topic(request: web.Request) -> web.Response:
    """Write records to a topic; each may name its ``partition``, else its key chooses one."""
    return await _produce(request, request.match_info["topic"], None)


@accepts(body=ProduceRequest.__struct_fields__)
async def produce_to_partition(request: web.Request) -> web.Response:
    """Write records to one partition."""
    return await _produce(request, *partition_in_path(request))


async def _produce(request: web.Request, topic: str, partition: int | None) -> web.Response:
    # 1. Parse and check the request.
    format = parse_content_type(request.headers.get("Content-Type", "")).format or "binary"
    body = parse_request(await request.read())
    if not body.records:
        raise api_error(UNPROCESSABLE, "the body has no records", 'send {"records": [{…}]}')
    await _check_partitions(request, topic, partition, body)
    # 2. Find or register the schemas, and convert all keys and values.
    key_schema = await _find_schema(request, topic, format, body, "key")
    value_schema = await _find_schema(request, topic, format, body, "value")
    convert = converter(request)
    indexes = range(len(body.records))
    values = await convert.encode(
        format,
        [bytes(record.value) for record in body.records],
        value_schema,
        [f"the value of record {index}" for index in indexes],
    )
    keys = await convert.encode(
        format,
        [bytes(record.key) for record in body.records],
        key_schema,
        [f"the key of record {index}" for index in indexes],
    )
    # 3. Write them all, and report each.
    records = [
        OutgoingRecord(
            topic=topic,
            value=value,
            key=key,
            partition=_partition_or_any(record.partition if partition is None else partition),
            sender=user_of(request),
        )
        for record, key, value in zip(body.records, keys, values, strict=True)
    ]
    charge_records(len(records))
    results = await asyncio.gather(*map(request.app[WRITER].send, records), return_exceptions=True)
    response = {
        "key_schema_id": key_schema.id if key_schema else None,
        "value_schema_id": value_schema.id if value_schema else None,
        "offsets": [_result(result) for result in results],
    }
    return json_reply(request, response)


async def _check_partitions(
    request: web.Request, topic: str, partition: int | None, body: ProduceRequest
) -> None:
    named = {record.partition for record in body.records if record.partition is not None}
    if partition is not None:
        await require_partition(request, topic, partition)
        if named - {partition}:
            raise api_error(UNPROCESSABLE, "a record names another partition than the path")
        return
    # If the lowest and the highest exist, so do those between.
    for number in {min(named), max(named)} if named else {None}:
        await require_partition(request, topic, number)


async def _find_schema(
    request: web.Request, topic: str, format: str, body: ProduceRequest, part: str
) -> RegisteredSchema | None:
    """Find (or register) the schema of keys or values; None if the format has none, or all are null."""
    if format not in SCHEMA_KINDS:
        for name in SCHEMA_FIELDS:
            if getattr(body, name) is not None:
                raise api_error(
                    UNPROCESSABLE,
                    f"the body has {name}, but {format} records have no schema",
                    "leave it out, or send application/vnd.kafka.avro.v2+json or …jsonschema.v2+json",
                )
        return None
    log = request.app[SCHEMA_LOG]
    given_id: int | str | None = getattr(body, f"{part}_schema_id")
    text: str | None = getattr(body, f"{part}_schema")
    if given_id is not None and text is not None:
        raise api_error(
            UNPROCESSABLE, f"the body has both {part}_schema and {part}_schema_id", "send one of them"
        )
    if given_id is not None:
        id = parse_schema_id(given_id)
        schema = await schema_by_id(log, id)
        check_kind(schema, format, part)
        return await require_subject(log, subject_for(topic, part, schema), id, schema)
    if text is not None:
        schema = await parse_sent_schema(request, text, format)
        return await find_or_register(request, subject_for(topic, part, schema), schema)
    if any(bytes(getattr(record, part)) != b"null" for record in body.records):
        missing = RestCode.KEY_SCHEMA_MISSING if part == "key" else RestCode.VALUE_SCHEMA_MISSING
        raise api_error(
            missing, f"the body has {part}s, but no {part}_schema", f"send {part}_schema or {part}_schema_id"
        )
    return None


def _partition_or_any(partition: int | None) -> int:
    return -1 if partition is None else partition


def _result(result: Delivered | BaseException) -> dict[str, Any]:
    if isinstance(result, Delivered) and not result.reason:
        return {"partition": result.partition, "offset": result.offset, "error_code": None, "error": None}
    if isinstance(result, Delivered):
        code, message = 1, dead_letter_message(result)
    elif isinstance(result, DistributaryError):
        code, message = 2 if result.retry else 1, result.message
    else:
        raise result
    return {"partition": None, "offset": None, "error_code": code, "error": message}
