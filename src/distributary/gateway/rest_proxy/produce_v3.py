"""Version 3: a stream of records in, a stream of results out, one for each record, in order.

``/v3/clusters`` tells clients the id of the cluster, which the address of a topic's records contains.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from distributary.auth.metering import charge_records
from distributary.errors import DistributaryError
from distributary.gateway.error_codes import BAD_REQUEST, UNPROCESSABLE, RestCode, api_error, status_of
from distributary.gateway.gateway_access import CONFIG, user_of
from distributary.gateway.gateway_errors import code_of
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.registry_requests import SCHEMA_LOG
from distributary.gateway.registry.schemas_topic_records import local_subject
from distributary.gateway.request_fields import accepts
from distributary.gateway.rest_proxy.metadata_client import MetadataClient
from distributary.gateway.rest_proxy.produce_requests import (
    Datum,
    JsonSplitter,
    RecordV3,
    parse_record,
    parse_schema_id,
)
from distributary.gateway.rest_proxy.proxy_requests import (
    WRITER,
    ask_kafka,
    converter,
    dead_letter_message,
    require_partition,
)
from distributary.gateway.rest_proxy.record_schemas import (
    TOPIC_NAME,
    check_kind,
    find_or_register,
    parse_sent_schema,
    require_subject,
    schema_by_id,
    subject_for,
)
from distributary.gateway.rest_proxy.serialization import RegisteredSchema
from distributary.httpd.authorization import Requirement, Route
from distributary.httpd.connection_handler import expect_stream
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import Delivered

_FORMATS = {"BINARY": "binary", "JSON": "json", "AVRO": "avro", "JSONSCHEMA": "jsonschema"}
"""The formats of keys and values by their type; STRING is the one without a format."""
_MAX_PENDING = 500
"""Records that are being written before the first of them must be acknowledged."""
IDLE_TIMEOUT = 300.0
"""Seconds without a byte after which a stream of records is closed."""

Result = dict[str, Any]
"""What is reported of one record."""


def routes() -> list[Route]:
    """List the routes."""
    return [
        Route("GET", "/v3/clusters", list_clusters, Requirement.USER),
        Route("GET", "/v3/clusters/{cluster}", show_cluster, Requirement.USER),
        Route("POST", "/v3/clusters/{cluster}/topics/{topic}/records", produce_stream, Requirement.PRODUCE),
    ]


async def list_clusters(request: web.Request) -> web.Response:
    """List the one cluster, whose id the addresses of version 3 contain."""
    cluster = _describe_cluster(await ask_kafka(request, MetadataClient.cluster_id))
    return web.json_response({"kind": "KafkaClusterList", "data": [cluster]})


async def show_cluster(request: web.Request) -> web.Response:
    """Describe the cluster."""
    return web.json_response(_describe_cluster(await _cluster_in_path(request)))


def _describe_cluster(cluster_id: str) -> dict[str, Any]:
    return {"kind": "KafkaCluster", "cluster_id": cluster_id}


async def _cluster_in_path(request: web.Request) -> str:
    """Return the cluster's id; raises 404 if the path has another."""
    cluster_id = await ask_kafka(request, MetadataClient.cluster_id)
    if request.match_info["cluster"] != cluster_id:
        raise api_error(404, "cluster not found", "GET /v3/clusters shows its id")
    return cluster_id


@accepts(body=RecordV3.__struct_fields__)
async def produce_stream(request: web.Request) -> web.StreamResponse:
    """Write records, sent as one JSON object after the other; each is reported once it is acknowledged."""
    cluster, topic = await _cluster_in_path(request), request.match_info["topic"]
    await require_partition(request, topic, None)
    expect_stream(request, IDLE_TIMEOUT)
    response: web.StreamResponse | None = None
    async for result, is_only in _results(request, cluster, topic):
        if response is None:
            # One record that fails is a failed request; in a stream each result has a code of its own.
            status = status_of(result["error_code"]) if is_only else 200
            response = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
            await response.prepare(request)
        await response.write(msgspec.json.encode(result) + b"\r\n")
    if response is None:
        raise api_error(BAD_REQUEST, "the body is empty", "send one JSON object for each record")
    await response.write_eof()
    return response


async def _results(request: web.Request, cluster: str, topic: str) -> AsyncIterator[tuple[Result, bool]]:
    """Write the records as they arrive; yields the results in order, and whether one is the only one left."""
    pending: asyncio.Queue[asyncio.Task[Result] | None] = asyncio.Queue(_MAX_PENDING)

    async def read() -> None:
        splitter = JsonSplitter(request.app[CONFIG].gateway.max_body)
        try:
            while True:
                data = await request.content.readany()
                for raw in splitter.feed(data, last=not data):
                    # Converted and queued one after the other, so that records keep their order.
                    await pending.put(asyncio.ensure_future(await _begin(request, cluster, topic, raw)))
                if not data:
                    return
        except DistributaryError as error:
            await pending.put(asyncio.ensure_future(_error_result(error)))
        finally:
            await pending.put(None)

    reading = asyncio.create_task(read())
    try:
        while (task := await pending.get()) is not None:
            result = await task
            yield result, reading.done() and pending.qsize() == 1
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _begin(request: web.Request, cluster: str, topic: str, raw: bytes) -> Coroutine[Any, Any, Result]:
    """Begin to write one record; returns what waits for its acknowledgement."""
    try:
        record = parse_record(raw)
        if record.partition_id is not None:
            await require_partition(request, topic, record.partition_id)
        key, key_size = await _encode(request, topic, "key", record.key)
        value, value_size = await _encode(request, topic, "value", record.value)
        outgoing = OutgoingRecord(
            topic=topic,
            value=value,
            key=key,
            partition=-1 if record.partition_id is None else record.partition_id,
            headers=_headers(record),
            timestamp=_timestamp_ms(record.timestamp),
            sender=user_of(request),
        )
    except DistributaryError as error:
        return _error_result(error)
    charge_records(1)
    sending = asyncio.ensure_future(request.app[WRITER].send(outgoing))
    await asyncio.sleep(0)  # the record is queued before the next one is parsed
    return _written_result(sending, cluster, {"key": key_size, "value": value_size})


async def _written_result(sending: asyncio.Future[Delivered], cluster: str, sizes: dict[str, Any]) -> Result:
    try:
        written = await sending
    except DistributaryError as error:
        code = RestCode.KAFKA_RETRIABLE_ERROR if error.retry else RestCode.KAFKA_ERROR
        return {"error_code": code, "message": error.message}
    if written.reason:
        return {"error_code": UNPROCESSABLE, "message": dead_letter_message(written)}
    time = datetime.fromtimestamp(written.timestamp / 1000, UTC)
    return {
        "error_code": 200,
        "cluster_id": cluster,
        "topic_name": written.topic,
        "partition_id": written.partition,
        "offset": written.offset,
        "timestamp": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        **{name: size for name, size in sizes.items() if size is not None},
    }


async def _error_result(error: DistributaryError) -> Result:
    return {"error_code": code_of(error), "message": str(error)}


async def _encode(
    request: web.Request, topic: str, part: str, datum: Datum | None
) -> tuple[bytes | None, dict[str, Any] | None]:
    """Convert a key or value to bytes; returns them with the type and size that the result reports."""
    if datum is None:
        return None, None
    kind, registered = datum.type.upper(), None
    if not kind or kind in ("AVRO", "JSONSCHEMA"):
        registered = await _find_schema(request, topic, part, kind, datum)
        kind = kind or ("AVRO" if registered.schema.kind == "AVRO" else "JSONSCHEMA")
    if kind == "STRING":
        data = _encode_string(datum.data, part)
    elif kind in _FORMATS:
        convert = converter(request)
        (data,) = await convert.encode(_FORMATS[kind], [bytes(datum.data)], registered, [f"the {part}"])
    else:
        known = ", ".join(("STRING", *_FORMATS))
        raise api_error(UNPROCESSABLE, f"unknown type {kind[:40]!r} of the {part}", f"use one of {known}")
    return data, {"type": kind, "size": len(data or b"")}


async def _find_schema(
    request: web.Request, topic: str, part: str, kind: str, datum: Datum
) -> RegisteredSchema:
    log, format = request.app[SCHEMA_LOG], _FORMATS.get(kind, "")

    def subject(schema: Schema | None) -> str:
        if datum.subject:
            return local_subject(datum.subject)
        return subject_for(topic, part, schema, datum.subject_name_strategy or TOPIC_NAME)

    if datum.schema is not None:
        schema = await parse_sent_schema(request, datum.schema, format or "avro")
        return await find_or_register(request, subject(schema), schema)
    if datum.schema_id is not None:
        id = parse_schema_id(datum.schema_id)
        schema = await schema_by_id(log, id)
        registered = await require_subject(log, subject(schema), id, schema)
    elif datum.schema_version is not None:
        version = (await log.caught_up()).version(subject(None), str(datum.schema_version))
        registered = RegisteredSchema(version.id, version.schema)
    else:
        raise api_error(
            UNPROCESSABLE,
            f"neither the type nor the schema of the {part} is given",
            "give type, or schema_id, schema or schema_version",
        )
    if format:
        check_kind(registered.schema, format, part)
    return registered


def _encode_string(raw: msgspec.Raw, part: str) -> bytes | None:
    try:
        text = msgspec.json.decode(raw, type=str | None)
    except msgspec.MsgspecError:
        raise api_error(
            BAD_REQUEST, f"the type of the {part} is STRING, but it is not a JSON string"
        ) from None
    return None if text is None else text.encode()


def _headers(record: RecordV3) -> tuple[tuple[str, str | bytes | None], ...]:
    try:
        return tuple(
            (header.name, None if header.value is None else base64.b64decode(header.value, validate=True))
            for header in record.headers or ()
        )
    except (binascii.Error, ValueError):
        raise api_error(BAD_REQUEST, "a header's value is not base64") from None


def _timestamp_ms(given: str | int | None) -> int:
    if given is None:
        return 0
    if isinstance(given, int):
        return given
    try:
        time = datetime.fromisoformat(given)
    except ValueError:
        raise api_error(
            UNPROCESSABLE, f"invalid timestamp {given[:40]!r}", "use ISO 8601, or milliseconds since 1970"
        ) from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
