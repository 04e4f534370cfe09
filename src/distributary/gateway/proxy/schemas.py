"""The schemas that records are written and read with, by way of the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import Message

from distributary.errors import GatewayError
from distributary.gateway import refuse as numbers
from distributary.gateway.proxy.formats import KIND_OF, Known, schema_id
from distributary.gateway.refuse import refuse
from distributary.gateway.schemas.log import SchemaLog
from distributary.gateway.schemas.routes import schema_of
from distributary.gateway.schemas.schema import Schema, parse


async def known_by_id(log: SchemaLog, number: int, format: str = "") -> Known:
    """Find a registered schema by its id (of a format's kind); raises 422."""
    found = await schema_of(log, number) if 0 <= number < 2**31 else None
    if found is None:
        raise refuse(numbers.UNPROCESSABLE, f"there is no schema with the id {number}", "send the schema")
    if format and found.kind != KIND_OF[format]:
        raise refuse(numbers.UNPROCESSABLE, f"the schema {number} is {found.kind}, not {KIND_OF[format]}")
    return Known(number, found)


async def known_by_text(log: SchemaLog, subject: str, text: str, format: str) -> Known:
    """Find a schema, registering it under the subject if it is new; raises 422 or 409."""
    try:
        schema = parse(text, KIND_OF[format])
    except GatewayError as error:
        raise refuse(numbers.PROXY_SCHEMA, error.message, error.hint) from None
    found = log.book.has(subject, schema)  # most often so, and then Kafka need not be asked
    if found is not None:
        return Known(found.id, schema)
    return Known(await log.change(lambda book: book.register(subject, schema)), schema)


async def finder(log: SchemaLog, messages: Iterable[Message]) -> Callable[[int], Schema | None]:
    """Give what finds the schemas of records, none of which need be known here yet."""
    wanted = {
        number
        for message in messages
        for number in (schema_id(message.key()), schema_id(message.value()))
        if number is not None
    }
    if any(log.book.schema(number) is None for number in wanted):
        await log.caught_up()
    return log.book.schema
