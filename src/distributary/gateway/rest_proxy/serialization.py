"""Conversion of keys and values between the JSON of bodies and the bytes of records, by format.

``json`` keeps the text as it was sent, so that numbers stay exact. ``avro`` and ``jsonschema`` have the wire
format of schema registries: a zero byte, four bytes of schema id, the data. Conversion by a schema runs
inline if it is cheap, else in a process with a deadline.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import fastavro
import fastavro.validation
import msgspec

from distributary.deadline import DeadlinePool
from distributary.errors import CheckFailed, ChecksBusy
from distributary.gateway.error_codes import BAD_REQUEST, RestCode, api_error
from distributary.gateway.registry import json_compatibility
from distributary.gateway.registry.registered_schema import Schema
from distributary.kafka import avro
from distributary.kafka.schema_cost import is_cheap

FORMATS = ("binary", "json", "avro", "jsonschema")
"""How keys and values of records are written in bodies."""
SCHEMA_KINDS = {"avro": "AVRO", "jsonschema": "JSON"}
"""The formats that need a schema, with its kind."""

_NULL = msgspec.Raw(b"null")
_MAX_RECORDS = 100
_MAX_BYTES = 65_536
"""The most that is converted in one call: it has one deadline, and the event loop runs in between."""
_SKIP_HINT = "read it as binary, or seek to the next record"

FindSchema = Callable[[int], Schema | None]
"""Finds a schema by its id."""


class RegisteredSchema(NamedTuple):
    """A schema and the id under which it is registered."""

    id: int
    schema: Schema


class RecordConverter:
    """Converts for one user: slow conversions of a user wait for that user's other slow checks only."""

    def __init__(self, deadline: DeadlinePool, user: str) -> None:
        self._deadline = deadline
        self._user = user

    async def encode(
        self, format: str, texts: Sequence[bytes], registered: RegisteredSchema | None, names: Sequence[str]
    ) -> list[bytes | None]:
        """Convert the JSON of keys or values to bytes, as `encode` does; ``names`` are for messages.

        May also raise CheckTooLong, CheckFailed or ChecksBusy.
        """
        encoded: list[bytes | None] = []
        for begin, end in _batches(texts):
            batch = texts[begin:end], names[begin:end]
            if registered is None or all(is_cheap(registered.schema.cost, text) for text in batch[0]):
                encoded += encode_batch(format, *batch, registered)
                await asyncio.sleep(0)
            else:
                schema = (registered.id, registered.schema.kind, registered.schema.text)
                what = names[begin] if end - begin == 1 else f"{names[begin]}, or one up to {names[end - 1]},"
                encoded += await self._deadline.run(
                    encode_batch, format, *batch, schema, what=what, owner=self._user
                )
        return encoded

    async def decode(self, format: str, data: bytes | None, find: FindSchema, where: str) -> msgspec.Raw:
        """Convert the bytes of a key or value to the JSON of a body, as `decode` does."""
        id = schema_id(data) if format in SCHEMA_KINDS else None
        schema = find(id) if id is not None else None
        if data is None or schema is None or format != "avro" or is_cheap(schema.cost, data):
            return decode(format, data, find, where)
        try:
            decoded = await self._deadline.run(
                decode_avro, data, schema.kind, schema.text, where, what=where, owner=self._user
            )
        except ChecksBusy as error:
            raise api_error(RestCode.NO_CONSUMER_AVAILABLE, error.message, error.hint) from None
        except CheckFailed as error:
            raise api_error(RestCode.CONVERSION_FAILED, error.message, _SKIP_HINT) from None
        return msgspec.Raw(decoded)


def encode_batch(
    format: str, texts: Sequence[bytes], names: Sequence[str], schema: Sequence[object] | None
) -> list[bytes | None]:
    """Convert the JSON of keys or values to bytes; also called in a process with a deadline.

    ``schema`` is a RegisteredSchema or, in such a process, its id, kind and text.
    """
    if schema is not None and not isinstance(schema, RegisteredSchema):
        id, kind, text = schema
        schema = RegisteredSchema(int(str(id)), Schema(str(kind), str(text)))
    return [encode(format, text, schema, name) for text, name in zip(texts, names, strict=True)]


def decode_avro(data: bytes, kind: str, text: str, where: str) -> bytes:
    """Convert Avro data to JSON; called in a process with a deadline."""
    return bytes(decode("avro", data, lambda id: Schema(kind, text), where))


def _batches(texts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Divide a list by number and size; yields the start and end of each part."""
    begin, size = 0, 0
    for index, text in enumerate(texts):
        if index > begin and (index - begin >= _MAX_RECORDS or size + len(text) > _MAX_BYTES):
            yield begin, index
            begin, size = index, 0
        size += len(text)
    if begin < len(texts):
        yield begin, len(texts)


def encode(
    format: str, raw: bytes | msgspec.Raw, registered: RegisteredSchema | None, where: str
) -> bytes | None:
    """Convert the JSON of a key or value to bytes; null becomes None. Raises GatewayError.

    ``where`` names it in messages.
    """
    text = bytes(raw).strip()
    if text in (b"", b"null"):
        return None
    if format == "binary":
        return _decode_base64(text, where)
    if format == "json":
        return text
    assert registered is not None
    try:
        value = json.loads(text)
        if format == "jsonschema":
            problem = json_compatibility.invalid(registered.schema.json(), value)
            if problem:
                raise ValueError(problem)
            data = text
        else:
            data = _json_to_avro(value, registered.schema)
    except RecursionError:
        raise api_error(RestCode.CONVERSION_FAILED, f"{where} is nested too deeply") from None
    except Exception as error:  # fastavro raises many types
        raise api_error(RestCode.CONVERSION_FAILED, f"{where} does not match its schema: {error}") from None
    return b"\0" + registered.id.to_bytes(4, "big") + data


def decode(format: str, data: bytes | None, find: FindSchema, where: str) -> msgspec.Raw:
    """Convert the bytes of a key or value to the JSON of a body. Raises GatewayError.

    ``find`` knows the schemas of the ids that `schema_id` finds in the data.
    """
    if data is None:
        return _NULL
    if format == "binary":
        return msgspec.Raw(b'"%b"' % base64.b64encode(data))
    try:
        if format == "json":
            return _checked_json(data)
        id = schema_id(data)
        schema = find(id) if id is not None else None
        if schema is None:
            raise ValueError("it does not begin with the id of a registered schema")
        if schema.kind != SCHEMA_KINDS[format]:
            raise ValueError(f"its schema is of the type {schema.kind}")
        return _checked_json(data[5:]) if format == "jsonschema" else _avro_to_json(data[5:], schema)
    except Exception as error:
        raise api_error(
            RestCode.CONVERSION_FAILED, f"{where} cannot be read as {format}: {error}", _SKIP_HINT
        ) from None


def schema_id(data: bytes | None) -> int | None:
    """Return the schema id in data of the wire format; None for other data."""
    if data is None or len(data) < 5 or data[0]:
        return None
    return int.from_bytes(data[1:5], "big")


def _checked_json(data: bytes) -> msgspec.Raw:
    msgspec.json.decode(data)
    return msgspec.Raw(data)


def _decode_base64(text: bytes, where: str) -> bytes:
    try:
        value = msgspec.json.decode(text, type=str)
        return base64.b64decode(value, validate=True)
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise api_error(
            BAD_REQUEST,
            f"{where} is not a base64 string",
            "encode it, or send another format such as application/vnd.kafka.json.v2+json",
        ) from None


def _json_to_avro(value: Any, schema: Schema) -> bytes:
    parsed = schema.avro().schema
    # The reader takes one value per line, so the value is written on one line.
    datum = next(iter(fastavro.json_reader(io.StringIO(json.dumps(value)), parsed)))
    fastavro.validation.validate(datum, parsed, raise_errors=True)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, datum)
    return out.getvalue()


def _avro_to_json(data: bytes, schema: Schema) -> msgspec.Raw:
    parsed = schema.avro().schema
    datum = avro.decode(data, parsed)
    out = io.StringIO()
    fastavro.json_writer(out, parsed, [datum])
    return msgspec.Raw(out.getvalue().encode())
