"""The schemas that records are written and read with, and their subjects in the registry."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web
from confluent_kafka import Message

from distributary.errors import Forbidden, GatewayError
from distributary.gateway.error_codes import BAD_REQUEST, UNPROCESSABLE, RestCode, api_error
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.registry_requests import SCHEMA_LOG, find_schema, schema_checker
from distributary.gateway.registry.schemas_topic import SchemaLog
from distributary.gateway.rest_proxy.serialization import (
    SCHEMA_KINDS,
    FindSchema,
    RegisteredSchema,
    schema_id,
)
from distributary.httpd.authorization import grant_of

TOPIC_NAME = "TOPIC_NAME"
STRATEGIES = (TOPIC_NAME, "RECORD_NAME", "TOPIC_RECORD_NAME")
"""How clients let the subject of a record's key or value be chosen."""


async def parse_sent_schema(request: web.Request, text: str, format: str) -> Schema:
    """Parse a schema that was sent with records of a format; raises 42205."""
    try:
        return await schema_checker(request).parse(text, SCHEMA_KINDS[format])
    except GatewayError as error:
        raise api_error(RestCode.INVALID_SCHEMA, error.message, error.hint) from None


async def find_or_register(request: web.Request, subject: str, schema: Schema) -> RegisteredSchema:
    """Find a schema under a subject, or register it if it is new; raises 409, or Forbidden."""
    log = request.app[SCHEMA_LOG]
    version = log.catalog.find_version(subject, schema)  # usually found, without a request to Kafka
    if version is None:
        try:
            grant_of(request).require_register(subject)
        except Forbidden:
            version = (await log.caught_up()).find_version(subject, schema)
            if version is None:
                raise
    if version is not None:
        return RegisteredSchema(version.id, schema)
    return RegisteredSchema(await schema_checker(request).register(log, subject, schema), schema)


async def schema_by_id(log: SchemaLog, id: int) -> Schema:
    """Find a registered schema by its id; raises 42207."""
    schema = await find_schema(log, id) if 0 <= id < 2**31 else None
    if schema is None:
        raise api_error(RestCode.SERIALIZATION_FAILED, f"schema {id} not found", "send the schema itself")
    return schema


async def require_subject(log: SchemaLog, subject: str, id: int, schema: Schema) -> RegisteredSchema:
    """Check that a subject has the schema with an id; raises 42207.

    A schema of another subject would bypass this subject's compatibility.
    """
    version = log.catalog.find_version(subject, schema)
    if version is None and (await log.caught_up()).find_version(subject, schema) is None:
        raise api_error(
            RestCode.SERIALIZATION_FAILED,
            f"schema {id} is not registered under the subject {subject!r}",
            "register it there, or send the schema itself",
        )
    return RegisteredSchema(id, schema)


def check_kind(schema: Schema, format: str, part: str) -> None:
    """Raise 422 unless a schema is of the kind that a format needs."""
    if schema.kind != SCHEMA_KINDS[format]:
        raise api_error(
            UNPROCESSABLE, f"the schema of the {part} is {schema.kind}, not {SCHEMA_KINDS[format]}"
        )


async def schema_finder(log: SchemaLog, messages: Iterable[Message]) -> FindSchema:
    """Return a function that finds the schemas of records, after reading those not known here yet."""
    ids = {
        id
        for message in messages
        for id in (schema_id(message.key()), schema_id(message.value()))
        if id is not None
    }
    if any(log.catalog.schema(id) is None for id in ids):
        await log.caught_up()
    return log.catalog.schema


def subject_for(topic: str, part: str, schema: Schema | None, strategy: str = TOPIC_NAME) -> str:
    """Return the subject of a topic's ``part`` (key or value) by a strategy; raises GatewayError.

    The strategies with RECORD_NAME need the schema: the subject has the full name of an Avro record, or the
    title of a JSON Schema.
    """
    if strategy == TOPIC_NAME:
        return f"{topic}-{part}"
    if schema is None:
        raise api_error(
            BAD_REQUEST,
            f"subject_name_strategy {strategy} needs the schema of the {part}",
            "give schema or schema_id, or name the subject",
        )
    name = _record_name(schema)
    if not name:
        raise api_error(
            RestCode.SERIALIZATION_FAILED,
            f"subject_name_strategy {strategy} needs a {part} schema with a record name",
            "use an Avro record, or a JSON Schema with a title",
        )
    return name if strategy == "RECORD_NAME" else f"{topic}-{name}"


def _record_name(schema: Schema) -> str:
    try:
        if schema.kind == "AVRO":
            document = schema.avro().schema
            is_record = isinstance(document, dict) and document.get("type") in ("record", "error")
            return str(document["name"]) if is_record else ""
        document = schema.json()
    except ValueError:  # another registry wrote it, with references or of another kind
        return ""
    return str(document.get("title", "")) if isinstance(document, dict) else ""
