"""Producing by version 3: a stream of records in, a stream of answers out, one a record, in order."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from distributary.auth.metering import charge_records
from distributary.errors import DistributaryError
from distributary.gateway.error_codes import BAD_REQUEST, UNPROCESSABLE, RestCode, api_error, status_of
from distributary.gateway.gateway_access import CONFIG, user_of
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.registry_requests import SCHEMA_LOG, schema_checker
from distributary.gateway.registry.schema_checker import DEADLINE
from distributary.gateway.registry.schemas_topic_records import local_subject
from distributary.gateway.request_fields import accepts
from distributary.gateway.response_bodies import number_of
from distributary.gateway.rest_proxy import produce_requests, topic_routes
from distributary.gateway.rest_proxy.converter import Converter
from distributary.gateway.rest_proxy.produce_v2 import WRITER, check_place, unfit
from distributary.gateway.rest_proxy.record_schemas import (
    check_kind,
    known_by_id,
    parsed,
    registered,
    schema_by_id,
)
from distributary.gateway.rest_proxy.serialization import Known
from distributary.gateway.rest_proxy.subjects import TOPIC_NAME, subject_of
from distributary.httpd.authorization import Requirement, Route, grant_of
from distributary.httpd.connection_handler import expect_stream
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.topic_writer import Written

_FORMATS = {"BINARY": "binary", "JSON": "json", "AVRO": "avro", "JSONSCHEMA": "jsonschema"}
_AHEAD = 500
"""Records that may be under way before the first of them must be acknowledged."""
IDLE = 300.0
"""Seconds without a byte after which a stream of records is taken for dead."""


def routes() -> list[Route]:
    """List the address for producing."""
    return [Route("POST", "/v3/clusters/{cluster}/topics/{topic}/records", produce, Requirement.PRODUCE)]


@accepts(body=produce_requests.Record.__struct_fields__)
async def produce(request: web.Request) -> web.StreamResponse:
    """Write records, one JSON object after the other; each is answered when it is acknowledged."""
    cluster, topic = await topic_routes.this_cluster(request), request.match_info["topic"]
    await check_place(request, topic, None)
    expect_stream(request, IDLE)
    reply: web.StreamResponse | None = None
    async for said, alone in _answers(request, cluster, topic):
        if reply is None:
            # One record that fails is a failed request; in a stream each answer says its own code.
            status = status_of(said["error_code"]) if alone else 200
            reply = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
            await reply.prepare(request)
        await reply.write(msgspec.json.encode(said) + b"\r\n")
    if reply is None:
        raise api_error(BAD_REQUEST, "the body is empty", "send a JSON object a record")
    await reply.write_eof()
    return reply


async def _answers(request: web.Request, cluster: str, topic: str) -> AsyncIterator[tuple[Any, bool]]:
    """Write the records as they come in; gives the answers in order, and whether one is the last."""
    waiting: asyncio.Queue[asyncio.Task[dict[str, Any]] | None] = asyncio.Queue(_AHEAD)

    async def read() -> None:
        splitter = produce_requests.Splitter(request.app[CONFIG].gateway.max_body)
        try:
            while True:
                data = await request.content.readany()
                for raw in splitter.feed(data, last=not data):
                    # Made and queued one after the other, so that records keep their order.
                    await waiting.put(asyncio.ensure_future(await _begun(request, cluster, topic, raw)))
                if not data:
                    return
        except DistributaryError as error:
            await waiting.put(asyncio.ensure_future(_said(error)))
        finally:
            await waiting.put(None)

    reading = asyncio.create_task(read())
    try:
        while (task := await waiting.get()) is not None:
            said = await task
            yield said, reading.done() and waiting.qsize() == 1
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _begun(request: web.Request, cluster: str, topic: str, raw: bytes) -> Any:
    """Begin to write one record; gives what waits for its acknowledgement and makes the answer."""
    try:
        record = produce_requests.record(raw)
        if record.partition_id is not None:
            await check_place(request, topic, record.partition_id)
        key, key_size = await _datum(request, topic, "key", record.key)
        value, value_size = await _datum(request, topic, "value", record.value)
        partition = -1 if record.partition_id is None else record.partition_id
        draft = OutgoingRecord(
            topic,
            value,
            key,
            partition,
            _headers(record),
            _moment(record.timestamp),
            sender=user_of(request),
        )
    except DistributaryError as error:
        return _said(error)
    charge_records(1)
    sending = asyncio.ensure_future(request.app[WRITER].send(draft))
    await asyncio.sleep(0)  # the record is queued before the next one is looked at
    return _sent(sending, cluster, {"key": key_size, "value": value_size})


async def _sent(sending: asyncio.Future[Written], cluster: str, sizes: dict[str, Any]) -> dict[str, Any]:
    try:
        sent = await sending
    except DistributaryError as error:
        code = RestCode.KAFKA_RETRIABLE_ERROR if error.retry else RestCode.KAFKA_ERROR
        return {"error_code": code, "message": error.message}
    if sent.reason:
        return {"error_code": UNPROCESSABLE, "message": unfit(sent)}
    moment = datetime.fromtimestamp(sent.timestamp / 1000, UTC)
    return {
        "error_code": 200,
        "cluster_id": cluster,
        "topic_name": sent.topic,
        "partition_id": sent.partition,
        "offset": sent.offset,
        "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        **{name: size for name, size in sizes.items() if size is not None},
    }


async def _said(error: DistributaryError) -> dict[str, Any]:
    return {"error_code": number_of(error), "message": str(error)}


async def _datum(
    request: web.Request, topic: str, name: str, datum: produce_requests.Datum | None
) -> tuple[bytes | None, dict[str, Any] | None]:
    if datum is None:
        return None, None
    kind, known = datum.type.upper(), None
    if not kind or kind in ("AVRO", "JSONSCHEMA"):
        known = await _schema(request, topic, name, kind, datum)
        kind = kind or ("AVRO" if known.schema.kind == "AVRO" else "JSONSCHEMA")
    if kind == "STRING":
        data = _text(datum.data, name)
    elif kind in _FORMATS:
        convert = Converter(request.app[DEADLINE], user_of(request))
        (data,) = await convert.encode(_FORMATS[kind], [bytes(datum.data)], known, [f"the {name}"])
    else:
        wanted = ", ".join(("STRING", *_FORMATS))
        raise api_error(UNPROCESSABLE, f"the {name}'s type {kind[:40]!r} is not known", f"it is {wanted}")
    return data, {"type": kind, "size": len(data or b"")}


async def _schema(
    request: web.Request, topic: str, part: str, kind: str, datum: produce_requests.Datum
) -> Known:
    log, format = request.app[SCHEMA_LOG], _FORMATS.get(kind, "")

    def subject(schema: Schema | None) -> str:
        if datum.subject:
            return local_subject(datum.subject)
        return subject_of(topic, part, schema, datum.subject_name_strategy or TOPIC_NAME)

    if datum.schema is not None:
        schema = await parsed(schema_checker(request), datum.schema, format or "avro")
        return await registered(schema_checker(request), log, subject(schema), schema, grant_of(request))
    if datum.schema_id is not None:
        number = produce_requests.id_of(datum.schema_id)
        schema = await schema_by_id(log, number)
        found = await known_by_id(log, subject(schema), number, schema)
    elif datum.schema_version is not None:
        version = (await log.caught_up()).version(subject(None), str(datum.schema_version))
        found = Known(version.id, version.schema)
    else:
        raise api_error(
            UNPROCESSABLE,
            f"neither the type nor the schema of the {part} is said",
            "give type, or schema_id, schema or schema_version",
        )
    if format:
        check_kind(found.schema, format, part)
    return found


def _text(raw: msgspec.Raw, name: str) -> bytes | None:
    try:
        text = msgspec.json.decode(raw, type=str | None)
    except msgspec.MsgspecError:
        raise api_error(BAD_REQUEST, f"the {name} is of the type STRING, but no text") from None
    return None if text is None else text.encode()


def _headers(record: produce_requests.Record) -> tuple[tuple[str, str | bytes | None], ...]:
    try:
        return tuple(
            (one.name, None if one.value is None else base64.b64decode(one.value, validate=True))
            for one in record.headers or ()
        )
    except (binascii.Error, ValueError):
        raise api_error(BAD_REQUEST, "a header's value is not in base64") from None


def _moment(said: str | int | None) -> int:
    if said is None:
        return 0
    if isinstance(said, int):
        return said
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        raise api_error(UNPROCESSABLE, f"{said[:40]!r} is no time", "write ISO 8601, or ms") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
