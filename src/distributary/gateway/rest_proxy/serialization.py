"""Keys and values between a body's JSON and a record's bytes, by format. Pure.

``json`` keeps the text as it was sent, so that numbers stay exact. ``avro`` and ``jsonschema`` have the wire
format of schema registries: a zero byte, four bytes of the schema's id, the data.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import fastavro
import fastavro.validation
import msgspec

from distributary.gateway.error_codes import BAD_REQUEST, RestCode, api_error
from distributary.gateway.registry import json_compatibility
from distributary.gateway.registry.registered_schema import Schema
from distributary.kafka import avro

KIND_OF = {"avro": "AVRO", "jsonschema": "JSON"}
"""The formats that need a schema, with its kind."""

NULL = msgspec.Raw(b"null")


class Known(NamedTuple):
    """A schema and the id that it is registered under."""

    id: int
    schema: Schema


def encode(format: str, raw: bytes | msgspec.Raw, known: Known | None, where: str) -> bytes | None:
    """Turn the JSON of a key or value into bytes; null is None. ``where`` is for messages. Raises 4xx."""
    text = bytes(raw).strip()
    if text in (b"", b"null"):
        return None
    if format == "binary":
        return _from_base64(text, where)
    if format == "json":
        return text
    assert known is not None
    try:
        value = json.loads(text)
        if format == "jsonschema":
            why = json_compatibility.invalid(known.schema.json(), value)
            if why:
                raise ValueError(why)
            data = text
        else:
            data = _to_avro(value, known.schema)
    except RecursionError:
        raise api_error(RestCode.CONVERSION_FAILED, f"{where} is nested too deeply") from None
    except Exception as error:  # fastavro raises what the data happen to raise
        raise api_error(RestCode.CONVERSION_FAILED, f"{where} does not fit its schema: {error}") from None
    return b"\0" + known.id.to_bytes(4, "big") + data


def decode(format: str, data: bytes | None, find: Callable[[int], Schema | None], where: str) -> msgspec.Raw:
    """Turn the bytes of a key or value into the JSON of a body. Raises GatewayError.

    ``find`` knows the schemas of the ids that `schema_id` finds in the data.
    """
    if data is None:
        return NULL
    if format == "binary":
        return msgspec.Raw(b'"%b"' % base64.b64encode(data))
    try:
        if format == "json":
            return _checked(data)
        number = schema_id(data)
        schema = find(number) if number is not None else None
        if schema is None:
            raise ValueError("it does not begin with the id of a registered schema")
        if schema.kind != KIND_OF[format]:
            raise ValueError(f"its schema is of the kind {schema.kind}")
        return _checked(data[5:]) if format == "jsonschema" else _from_avro(data[5:], schema)
    except Exception as error:
        raise api_error(
            RestCode.CONVERSION_FAILED,
            f"{where} cannot be read as {format}: {error}",
            "read it as binary, or begin behind it",
        ) from None


def schema_id(data: bytes | None) -> int | None:
    """Find the id in data of the wire format; None in others."""
    if data is None or len(data) < 5 or data[0]:
        return None
    return int.from_bytes(data[1:5], "big")


def _checked(data: bytes) -> msgspec.Raw:
    msgspec.json.decode(data)
    return msgspec.Raw(data)


def _from_base64(text: bytes, where: str) -> bytes:
    try:
        value = msgspec.json.decode(text, type=str)
        return base64.b64decode(value, validate=True)
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise api_error(
            BAD_REQUEST,
            f"{where} is not a text in base64",
            "encode it, or send another format such as application/vnd.kafka.json.v2+json",
        ) from None


def _to_avro(value: Any, schema: Schema) -> bytes:
    parsed = schema.avro().schema
    # The reader takes one value a line, so the value is written on one.
    datum = next(iter(fastavro.json_reader(io.StringIO(json.dumps(value)), parsed)))
    fastavro.validation.validate(datum, parsed, raise_errors=True)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, datum)
    return out.getvalue()


def _from_avro(data: bytes, schema: Schema) -> msgspec.Raw:
    parsed = schema.avro().schema
    datum = avro.decode(data, parsed)
    out = io.StringIO()
    fastavro.json_writer(out, parsed, [datum])
    return msgspec.Raw(out.getvalue().encode())
