"""Values that name their schema: byte 0, the schema's id in four bytes, then Avro or JSON.

Spark decodes Avro by ``from_avro``, with one branch of a CASE for each schema that is known when the query is
planned, and writes it as JSON: from there on the value is that of a JSON feed. A record that names another
schema stops the query, which is planned again when the registry has been read (``schema_registry.py``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from distributary.model.feed import Feed

HEAD = 5
MARK = "distributary_read"
"""A field with a default that only the reader's schema has: it is null if a value could not be read."""

_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_UNKNOWN = re.compile(r"SchemaUnknown:(\d+):")


@dataclass(frozen=True, slots=True)
class Known:
    """What a plan can read: schemas (of Avro records) by their ids, and why other ids cannot be read."""

    schemas: Mapping[int, Any] = field(default_factory=dict)
    unusable: Mapping[int, str] = field(default_factory=dict)


NOTHING = Known()


def decode_sql(feed: Feed, known: Known) -> tuple[str, ...]:
    """Return Spark SQL for columns, each over the ones before it; the last is ``decoded``.

    That is the JSON of a record's ``value`` in bytes, null if it cannot be read. A schema that is not in
    ``known`` raises an error that ``unknown_ids`` reads.
    """
    if feed.format == "json":
        return (f"IF({_FRAMED}, substring(value, {HEAD + 1}), null) AS decoded",)
    branches = [
        f"WHEN {_HEAD} = {_head(id)} THEN {_avro(schema)}" for id, schema in sorted(known.schemas.items())
    ]
    if known.unusable:
        branches.append(f"WHEN {_HEAD} IN ({', '.join(map(_head, sorted(known.unusable)))}) THEN null")
    id = "conv(hex(substring(value, 2, 4)), 16, 10)"
    # The checks for unexpected values come last, so that they cost the others nothing.
    written = (
        f"CASE {' '.join(branches)} WHEN value IS NULL OR NOT {_FRAMED} THEN null "
        f"ELSE raise_error(concat('SchemaUnknown:', {id}, ':')) END AS written"
    )
    end = f',"{MARK}":1}}'
    cut = f"concat(left(written, length(written) - {len(end)}), '}}')"
    # A record without fields has only the mark.
    decoded = f"CASE WHEN endswith(written, '{end}') THEN {cut} WHEN written = '{{{end[1:]}' THEN '{{}}' END"
    return written, f"cast({decoded} as binary) AS decoded"


def unknown_ids(text: str) -> set[int]:
    """Return the ids of schemas that a failed query did not know, from the text that its SQL raised."""
    return {int(id) for id in _UNKNOWN.findall(text)}


def schema_id(value: bytes) -> int | None:
    """Read the id of the schema that a value names; None if it names none."""
    return int.from_bytes(value[1:HEAD], "big") if len(value) >= HEAD and value[0] == 0 else None


def explain(value: bytes, feed: Feed, unusable: Mapping[int, str]) -> str:
    """Return why a value of a feed whose values name their schema could not be read."""
    if feed.format == "json":
        return "the value is not five bytes that name its schema, the first of them 0, followed by JSON"
    id = schema_id(value)
    if id is None:
        return "not framed: the value does not begin with byte 0 and a schema id"
    return unusable.get(id) or f"the value is not Avro with the schema {id}, or is truncated"


_HEAD = f"substring(value, 1, {HEAD})"
_FRAMED = f"(octet_length(value) >= {HEAD} AND substring(value, 1, 1) = X'00')"


def _head(id: int) -> str:
    return f"X'00{id:08X}'"


def _avro(schema: Any) -> str:
    """Return SQL for the JSON of a value that was written with a schema."""
    reader = {**schema, "fields": [*schema["fields"], {"name": MARK, "type": "int", "default": 1}]}
    options = f"map('mode', 'PERMISSIVE', 'avroSchema', {_literal(reader)})"
    body = f"from_avro(substring(value, {HEAD + 1}), {_literal(schema)}, {options})"
    formats = f"'timestampFormat', {_quoted(_TIME + 'XXX')}, 'timestampNTZFormat', {_quoted(_TIME)}"
    return f"to_json({body}, map('ignoreNullFields', 'false', {formats}))"


def _literal(schema: Any) -> str:
    # Spark would replace ${…} by its own variables, even within a string.
    return _quoted(json.dumps(schema).replace("$", "\\u0024"))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
