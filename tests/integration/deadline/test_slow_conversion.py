"""Untrusted records by untrusted schemas: a deadline changes no result, and nothing takes forever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.inline_registry import InlineSchemaLog, incompatibilities, register
from tests.support.sample_schemas import JSON_VALUES, avro_schemas, json_documents

from distributary.deadline import DeadlinePool
from distributary.errors import CheckFailed, CheckTooLong, GatewayError
from distributary.gateway.registry import schema_checker
from distributary.gateway.registry.registered_schema import Schema, parse_schema, unreadable_if_quick
from distributary.gateway.registry.schema_catalog import SchemaCatalog
from distributary.gateway.registry.schema_checker import SchemaChecker
from distributary.gateway.registry.schemas_topic_records import Record
from distributary.gateway.rest_proxy import serialization
from distributary.gateway.rest_proxy.serialization import RecordConverter, RegisteredSchema

PATTERN = Schema("JSON", json.dumps({"pattern": "^(a+)+$"}))
TREE = Schema(
    "AVRO",
    json.dumps({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}),
)


@pytest.fixture
async def deadline() -> AsyncIterator[DeadlinePool]:
    pool = DeadlinePool(0.3)
    yield pool
    await pool.close()


async def test_value_that_a_pattern_backtracks_on_is_rejected(deadline: DeadlinePool) -> None:
    convert = RecordConverter(deadline, "eve")
    texts = [b'"aaa"', json.dumps("a" * 60 + "!").encode()]
    assert await convert.encode("jsonschema", texts[:1], RegisteredSchema(7, PATTERN), ["a"]) == [
        b'\0\0\0\0\7"aaa"',
    ]
    with pytest.raises(
        CheckTooLong, match="the value of record 0, or one up to the value of record 1, takes"
    ):
        await convert.encode(
            "jsonschema",
            texts,
            RegisteredSchema(7, PATTERN),
            ["the value of record 0", "the value of record 1"],
        )


async def test_value_that_does_not_match_its_schema_is_rejected_with_its_code(deadline: DeadlinePool) -> None:
    with pytest.raises(GatewayError, match="record 1 does not match its schema") as caught:
        await RecordConverter(deadline, "").encode(
            "jsonschema", [b'"a"', b'"b"'], RegisteredSchema(7, PATTERN), ["record 0", "record 1"]
        )
    assert caught.value.error_code == 42203


async def test_large_batch_by_a_slow_schema_is_several_calls(deadline: DeadlinePool) -> None:
    texts = [json.dumps("a" * 20).encode()] * 5_000
    found = await RecordConverter(deadline, "").encode(
        "jsonschema", texts, RegisteredSchema(7, PATTERN), ["it"] * len(texts)
    )
    assert found == [b"\0\0\0\0\7" + text for text in texts]


async def test_deep_avro_data_is_rejected_without_a_crash(deadline: DeadlinePool) -> None:
    convert = RecordConverter(deadline, "")
    fine = await convert.decode("avro", b"\0\0\0\0\7\2\0", lambda number: TREE, "it")
    assert json.loads(bytes(fine)) == {"r": {"R": {"r": None}}}
    with pytest.raises(GatewayError, match="it cannot be checked") as caught:
        await convert.decode("avro", b"\0\0\0\0\7" + b"\2" * 200_000, lambda number: TREE, "it")
    assert caught.value.error_code == 42203


async def test_large_schema_is_parsed_with_a_deadline(
    deadline: DeadlinePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_checker, "parse_schema", _not_inline)
    check = SchemaChecker(deadline, "")
    text = json.dumps({"properties": {f"field{at}": {"type": "string"} for at in range(1_000)}})
    assert await check.parse(text, "JSON") == Schema("JSON", text)
    with pytest.raises(GatewayError, match="unknown type nothing") as caught:
        await check.parse(json.dumps("nothing") + " " * 20_000, None)
    assert caught.value.error_code == 42201


def _not_inline(*words: Any) -> Any:
    raise AssertionError("it was parsed in the event loop")


async def test_schema_with_lone_surrogate_is_rejected(deadline: DeadlinePool) -> None:
    with pytest.raises(CheckFailed, match="half a character"):
        await SchemaChecker(deadline, "").parse('{"pattern": "\ud800"}', "JSON")


class ContestedSchemaLog(InlineSchemaLog):
    """Another gateway registers a schema, too, while one is compared."""

    def __init__(self, other: Schema) -> None:
        super().__init__()
        self.others = [other]

    async def change(self, decide: Callable[[SchemaCatalog], tuple[Any, list[Record]]]) -> Any:
        if self.others:
            self.write(register(self.catalog, "s", self.others.pop())[1])
        return await super().change(decide)


async def test_schema_is_compared_again_if_another_was_registered_first(deadline: DeadlinePool) -> None:
    log: Any = ContestedSchemaLog(Schema("AVRO", '"string"'))
    with pytest.raises(GatewayError) as caught:
        await SchemaChecker(deadline, "").register(log, "s", Schema("AVRO", '"int"'))
    assert caught.value.error_code == 409
    log = ContestedSchemaLog(Schema("AVRO", '"int"'))
    assert await SchemaChecker(deadline, "").register(log, "s", Schema("AVRO", '"long"')) == 2


AVRO = avro_schemas().map(lambda one: ("AVRO", json.dumps(one)))
JSON = json_documents().map(lambda one: ("JSON", json.dumps(one)))


@settings(max_examples=8, phases=(Phase.generate,))  # each starts a process, so none is shrunk
@given(
    st.lists(
        st.tuples(JSON, JSON, JSON_VALUES) | st.tuples(AVRO, AVRO, JSON_VALUES), min_size=10, max_size=20
    )
)
def test_result_with_a_deadline_equals_the_one_without(cases: list[tuple[Any, Any, Any]]) -> None:
    async def compare() -> None:
        deadline = DeadlinePool(20.0)
        convert = RecordConverter(deadline, "")
        try:
            for first, second, value in cases:
                one, other = Schema(*first), Schema(*second)
                assert await deadline.run(schema_checker._parse_kind, one.text, one.kind, what="") == (
                    parse_schema(one.text, one.kind).kind
                )
                parts = [*first, "", *second, ""]
                timed = await deadline.run(schema_checker._compare_texts, *parts, what="")
                assert unreadable_if_quick(one, other) in (None, timed)
                assert await SchemaChecker(deadline, "").incompatibilities("FULL", one, [other]) == (
                    incompatibilities("FULL", one, [other])
                )
                if one.kind == "JSON":
                    text = json.dumps(value).encode()
                    assert await _outcome(
                        convert.encode("jsonschema", [text], RegisteredSchema(1, one), ["it"])
                    ) == (await _outcome(_inline(text, one)))
        finally:
            await deadline.close()

    asyncio.run(compare())


async def _inline(text: bytes, schema: Schema) -> list[bytes | None]:
    return [serialization.encode("jsonschema", text, RegisteredSchema(1, schema), "it")]


async def _outcome(call: Any) -> Any:
    try:
        return await call
    except GatewayError as error:
        return error.error_code, str(error)
