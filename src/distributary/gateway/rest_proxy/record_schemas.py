"""The schemas that records are written and read with, by way of the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import Message

from distributary.auth import Grant
from distributary.errors import Forbidden, GatewayError
from distributary.gateway.error_codes import UNPROCESSABLE, RestCode, api_error
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.registry_requests import find_schema
from distributary.gateway.registry.schema_checker import SchemaChecker
from distributary.gateway.registry.schemas_topic import SchemaLog
from distributary.gateway.rest_proxy.serialization import KIND_OF, Known, schema_id


async def schema_by_id(log: SchemaLog, number: int) -> Schema:
    """Find a registered schema by its id; raises 42207."""
    found = await find_schema(log, number) if 0 <= number < 2**31 else None
    if found is None:
        raise api_error(
            RestCode.SERIALIZATION_FAILED, f"there is no schema with the id {number}", "send the schema"
        )
    return found


async def known_by_id(log: SchemaLog, subject: str, number: int, schema: Schema) -> Known:
    """Check that a subject has the schema of an id; raises 42207.

    The schema of another subject would bypass this one's compatibility.
    """
    if (
        log.catalog.find_version(subject, schema) is None
        and (await log.caught_up()).find_version(subject, schema) is None
    ):
        raise api_error(
            RestCode.SERIALIZATION_FAILED,
            f"the schema {number} is not registered under the subject {subject!r}",
            "register it there, or send the schema itself",
        )
    return Known(number, schema)


async def parsed(checker: SchemaChecker, text: str, format: str) -> Schema:
    """Read a schema that was sent with records of a format; raises 42205."""
    try:
        return await checker.parse(text, KIND_OF[format])
    except GatewayError as error:
        raise api_error(RestCode.INVALID_SCHEMA, error.message, error.hint) from None


async def registered(
    checker: SchemaChecker, log: SchemaLog, subject: str, schema: Schema, grant: Grant
) -> Known:
    """Find a schema under a subject, registering it if it is new; raises 409, or Forbidden."""
    found = log.catalog.find_version(subject, schema)  # most often so, and then Kafka need not be asked
    if found is None:
        try:
            grant.require_register(subject)
        except Forbidden:
            found = (await log.caught_up()).find_version(subject, schema)
            if found is None:
                raise
    if found is not None:
        return Known(found.id, schema)
    return Known(await checker.register(log, subject, schema), schema)


def check_kind(schema: Schema, format: str, where: str) -> None:
    """Raise 422 unless a schema is of the kind that a format has."""
    if schema.kind != KIND_OF[format]:
        raise api_error(UNPROCESSABLE, f"the schema of the {where} is {schema.kind}, not {KIND_OF[format]}")


async def finder(log: SchemaLog, messages: Iterable[Message]) -> Callable[[int], Schema | None]:
    """Give what finds the schemas of records, none of which need be known here yet."""
    wanted = {
        number
        for message in messages
        for number in (schema_id(message.key()), schema_id(message.value()))
        if number is not None
    }
    if any(log.catalog.schema(number) is None for number in wanted):
        await log.caught_up()
    return log.catalog.schema
