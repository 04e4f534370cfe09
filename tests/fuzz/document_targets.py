"""Targets: configuration, view definitions, schemas, request bodies of the gateway, values by a schema."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from distributary.config import EXAMPLE, load, parse_views
from distributary.config.coerce import from_text
from distributary.config.settings_table import SETTINGS
from distributary.control.view_routes import read_definition
from distributary.errors import DistributaryError
from distributary.gateway.registry.registered_schema import Schema, parse_schema
from distributary.gateway.registry.schema_catalog import SchemaCatalog
from distributary.gateway.rest_proxy import serialization
from distributary.gateway.rest_proxy.consumer_requests import OFFSET_FIELDS, parse_offsets
from distributary.gateway.rest_proxy.produce_requests import JsonSplitter, parse_record, parse_request
from distributary.kafka import avro, json_schema
from distributary.kafka.value_schema import SchemaMismatch, any_value, avro_reader, json_reader
from distributary.model.feed import Feed
from tests.fuzz.engine import Run, Target, without_resources
from tests.fuzz.mutations import any_json, any_text
from tests.support.inline_registry import incompatibilities, register

AVRO = (
    '{"type":"record","name":"Bet","fields":[{"name":"stake","type":"double"},{"name":"tags","type":{"type":"array","items":"string"}},'
    '{"name":"next","type":["null","Bet"],"default":null}]}',
    '{"type":"map","values":{"type":"fixed","name":"F","size":4}}',
    '{"type":"enum","name":"E","symbols":["A","B"]}',
    '{"type":"array","items":{"type":"int","logicalType":"date"}}',
    '["null","long",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}]',
)
VALUES = (
    b"\x00\x00\x00\x00\x00\x00\xf8?\x02\x04ab\x00\x00",
    b"\x02\x02a1234\x00",
    b"\x02",
    b"\x02\x08\x00",
    b"\x02\x10",
)
JSON_SCHEMAS = (
    '{"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"$ref":"#/definitions/x"}},"required":["a"],'
    '"definitions":{"x":{"type":"string","pattern":"^a+$","maxLength":9}},"additionalProperties":false}',
    '{"anyOf":[{"const":1},{"enum":["a",null]},{"type":"array","items":{"type":"number"},"uniqueItems":true}]}',
    '{"$schema":"http://json-schema.org/draft-07/schema#","not":{"type":"null"},"if":{},"then":true}',
)
WORDS = (
    "type",
    "record",
    "name",
    "fields",
    "array",
    "items",
    "map",
    "values",
    "enum",
    "symbols",
    "fixed",
    "size",
    "null",
    "string",
)
JSON_WORDS = (
    "type",
    "properties",
    "items",
    "anyOf",
    "allOf",
    "$ref",
    "enum",
    "pattern",
    "minimum",
    "not",
    "required",
    "format",
)


@contextlib.contextmanager
def _config() -> Iterator[Run]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "distributary.toml"

        def run(data: bytes) -> bool:
            file.write_bytes(data)
            accepted = False
            with contextlib.suppress(DistributaryError):
                load(file, {}).effective()
                accepted = True
            with contextlib.suppress(DistributaryError):
                parse_views(data.decode("utf-8", "replace"))
                accepted = True
            return accepted

        yield run


def _toml(random: Random) -> bytes:
    lines = []
    for setting in random.sample(SETTINGS, 3):
        section = (
            f"[[{setting.section}]]"
            if setting.section in ("views", "feeds", "topics")
            else f"[{setting.section}]"
        )
        example = setting.info.example or '"x"'
        value = example if random.random() < 0.5 else json.dumps(any_json(random)).replace("null", '""')
        lines.append(f"{section if setting.section else ''}\n{setting.name} = {value}")
    return "\n".join(lines).encode("utf-8", "replace")


def _variable(data: bytes) -> bool:
    name, _, text = data.decode("utf-8", "replace").partition("=")
    found = [setting for setting in SETTINGS if setting.key == name] or [SETTINGS[len(data) % len(SETTINGS)]]
    try:
        from_text(found[0], text)
    except ValueError:
        return False
    return True


def _definition(data: bytes) -> bool:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return False
    if not isinstance(body, dict):
        return False
    try:
        read_definition("odds", body, [Feed("odds", "odds")])
    except DistributaryError:
        return False
    return True


def _avro(data: bytes) -> bool:
    """Parse a schema, then, after a zero byte, a value by it."""
    text, _, value = data.partition(b"\0")
    try:
        found = avro.parse_schema(json.loads(text))
    except (ValueError, RecursionError):
        return False
    try:
        avro.decode(value, found.schema)
    except ValueError:
        return False
    return True


def _nested(words: tuple[str, ...], random: Random) -> str:
    def one(depth: int) -> object:
        match random.randrange(4 if depth < 5 else 1):
            case 0:
                return random.choice(words)
            case 1:
                return [one(depth + 1) for _ in range(random.randrange(3))]
            case 2:
                return any_json(random)
            case _:
                return {random.choice(words): one(depth + 1) for _ in range(random.randrange(1, 5))}

    return json.dumps(one(0))


def _schema(data: bytes) -> bool:
    """Parse schemas of both kinds as the registry does, and compare them with another."""
    text = data.decode("utf-8", "surrogateescape")
    accepted = False
    for kind, known in _KNOWN.items():
        try:
            new = parse_schema(text, kind)
            for level in ("FULL", "BACKWARD_TRANSITIVE"):
                incompatibilities(level, new, known)
                incompatibilities(level, known[0], [new])
            accepted = bool(new.canonical().identity)
            register(SchemaCatalog(), "s-value", new)
        except DistributaryError:
            continue
    return accepted


_KNOWN: dict[str, list[Schema]] = {
    "AVRO": [parse_schema(text, "AVRO") for text in AVRO],
    "JSON": [parse_schema(text, "JSON") for text in JSON_SCHEMAS],
}


def _json_schema(data: bytes) -> bool:
    text, _, value = data.partition(b"\0")
    try:
        document = json.loads(text)
        json_schema.check_schema(document)
        read = json_reader(document)
    except (ValueError, RecursionError):
        return False
    try:
        read(value)
    except SchemaMismatch:
        return False
    return True


def _value(data: bytes) -> bool:
    accepted = bool(any_value(data))
    for read in _READERS:
        with contextlib.suppress(SchemaMismatch):
            read(data)
            accepted = True
    for format in ("binary", "json", "avro", "jsonschema"):
        with contextlib.suppress(DistributaryError):
            serialization.decode(format, data, _find, "value")
            accepted = True
    return accepted


def _find(number: int) -> Schema | None:
    return (_KNOWN["AVRO"] + _KNOWN["JSON"])[number] if number < 8 else None


_READERS = [avro_reader(json.loads(text), skip) for text in AVRO for skip in (0, 5)] + [
    json_reader(json.loads(JSON_SCHEMAS[0]))
]


def _body(data: bytes) -> bool:
    accepted = False
    for read in (parse_request, parse_record):
        with contextlib.suppress(DistributaryError):
            read(data)
            accepted = True
    with contextlib.suppress(DistributaryError):
        splitter = JsonSplitter(65_536)
        for at in range(0, len(data), 997):
            for one in splitter.feed(data[at : at + 997], last=at + 997 >= len(data)):
                parse_record(one)
    with contextlib.suppress(ValueError, RecursionError):
        body = json.loads(data)
        if isinstance(body, dict):
            with contextlib.suppress(DistributaryError):
                parse_offsets(body, "offsets", OFFSET_FIELDS)
    return accepted


_BODIES = (
    b'{"records":[{"key":"aw==","value":"dg==","partition":0},{"value":null}]}',
    b'{"value_schema":"\\"string\\"","records":[{"value":"x"}],"key_schema_id":3}',
    b'{"partition_id":0,"headers":[{"name":"h","value":"eA=="}],"key":{"type":"JSON","data":1},"value":{"type":"BINARY","data":"eA=="}}',
    b'{"value":{"schema_id":1,"data":{}},"timestamp":"2026-01-31T08:00:00Z"} {"value":{"data":"x"}}',
    b'{"offsets":[{"topic":"t","partition":0,"offset":5}]}',
)
_VIEW = {
    "feed": "odds",
    "key": "market_id",
    "where": "price > 1",
    "ttl": "1h",
    "reduce": "merge",
    "index": ["a"],
}

TARGETS = (
    Target(
        "configuration",
        _config,
        [EXAMPLE.encode(), b'[store]\nurl = "redis://h"\n[kafka.properties]\na.b = 1\n[auth]\nkeys = {}\n'],
        (
            "config.loader",
            "config.document_reader",
            "config.coerce",
            "config.toml_lines",
            "config.units",
            "config.aggregates",
        ),
        _toml,
        0.3,
    ),
    Target(
        "variable",
        without_resources(_variable),
        [f"{one.key}={one.info.example}".encode() for one in SETTINGS if one.info.example]
        + [b'kafka.properties={"a":"b"}', b"kafka.properties=a=b,c='d,e'"],
        ("config.coerce", "config.validators"),
    ),
    Target(
        "definition",
        without_resources(_definition),
        [
            json.dumps(_VIEW).encode(),
            json.dumps({"view": _VIEW, "feed": {"name": "odds", "topic": "odds"}}).encode(),
        ],
        ("control.view_routes", "config.cross_checks"),
        lambda random: json.dumps(
            {**_VIEW, random.choice(list(_VIEW)): any_json(random), any_text(random): 1}
        ).encode(),
        0.3,
    ),
    Target(
        "avro",
        without_resources(_avro),
        [text.encode() + b"\0" + value for text, value in zip(AVRO, VALUES, strict=True)],
        ("kafka.avro",),
        lambda random: (
            _nested(WORDS, random).encode() + b"\0" + random.choice((*VALUES, random.randbytes(9)))
        ),
    ),
    Target(
        "registry-schema",
        without_resources(_schema),
        [text.encode() for text in AVRO + JSON_SCHEMAS],
        (
            "gateway.registry.registered_schema",
            "gateway.registry.avro_compatibility",
            "gateway.registry.json_compatibility",
            "gateway.registry.schema_catalog",
        ),
        lambda random: _nested(random.choice((WORDS, JSON_WORDS)), random).encode(),
        0.2,
    ),
    Target(
        "json-schema",
        without_resources(_json_schema),
        [
            JSON_SCHEMAS[0].encode() + b'\0{"a":1,"b":"aa"}',
            JSON_SCHEMAS[1].encode() + b"\0[1,2]",
            JSON_SCHEMAS[2].encode() + b"\x001",
        ],
        ("kafka.json_schema", "kafka.value_schema"),
        lambda random: _nested(JSON_WORDS, random).encode() + b"\0" + json.dumps(any_json(random)).encode(),
        0.1,
    ),
    Target(
        "value",
        without_resources(_value),
        [
            *VALUES,
            *(b"\0\0\0\0" + bytes((n,)) + value for n, value in enumerate(VALUES)),
            b'{"a":1,"b":"aa"}',
            b"\0\0\0\0\x05" + b'{"a":1}',
        ],
        ("kafka.value_schema", "gateway.rest_proxy.serialization"),
        lambda random: (
            b"\0\0\0\0" + bytes((random.randrange(9),)) + random.choice((random.randbytes(20), *VALUES))
        ),
        0.5,
    ),
    Target("gateway-body", without_resources(_body), _BODIES, ("gateway.rest_proxy.produce_requests",)),
)
