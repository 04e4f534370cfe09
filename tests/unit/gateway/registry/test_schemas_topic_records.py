"""Whatever stands in the topic is read, left alone or refused; what we write is read as it was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.gateway.refusals import refusal

from distributary.gateway.registry import schemas_topic_records
from distributary.gateway.registry.registered_schema import Schema, incompatible
from distributary.gateway.registry.schema_catalog import Book
from distributary.gateway.registry.schemas_topic_records import Version

RULED = {"ruleSet": {"domainRules": []}, "references": [{"name": "a", "subject": "b", "version": 1}]}
ONE = Version(
    "s",
    2,
    7,
    Schema(
        "AVRO",
        '"int"',
        '{"references":[{"name":"a","subject":"b","version":1}],"ruleSet":{"domainRules":[]}}',
    ),
    deleted=True,
    rest={"md5": "x", **RULED},
)


def test_version_is_read_as_it_was_written() -> None:
    assert schemas_topic_records.read(*schemas_topic_records.schema(ONE)) == ONE
    assert schemas_topic_records.read(*schemas_topic_records.gone(ONE)) == schemas_topic_records.Gone("s", 2)
    assert schemas_topic_records.read(*schemas_topic_records.last_id(9)) == schemas_topic_records.LastId(9)
    said = {"compatibilityLevel": "FULL", "alias": "x"}
    assert schemas_topic_records.read(
        *schemas_topic_records.setting("", said)
    ) == schemas_topic_records.Setting("CONFIG", "", said)
    assert schemas_topic_records.read(
        *schemas_topic_records.setting("s", None)
    ) == schemas_topic_records.Setting("CONFIG", "s", None)


@pytest.mark.parametrize(
    ("subject", "name"),
    [("s", "s"), (":.:s", "s"), (":.ctx:s", None), (":.ctx:", None), (":s", ":s"), ("", ""), (":.:", "")],
)
def test_only_the_default_context_is_local(subject: str, name: str | None) -> None:
    assert schemas_topic_records.local(subject) == name
    assert refusal(schemas_topic_records.local_name, subject) == (42208 if name is None else None)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 9)
    | st.sampled_from(("s", ":.c:s", "AVRO", '"int"', "{", "READONLY")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)
NAMES = (
    "subject",
    "version",
    "id",
    "schema",
    "schemaType",
    "deleted",
    "references",
    "mode",
    "last",
    "metadata",
)
KEYS = st.fixed_dictionaries(
    {"keytype": st.sampled_from(("SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT", "CLEAR_SUBJECT", "IDS", "X"))},
    optional={"subject": VALUES, "version": VALUES},
)


@given(
    st.lists(st.tuples(KEYS | VALUES, st.dictionaries(st.sampled_from(NAMES), VALUES) | VALUES), max_size=6)
)
@example([({"keytype": "CONFIG"}, True)])
def test_any_topic_is_read_and_no_id_is_given_twice(log: list[tuple[Any, Any]]) -> None:
    book = Book()
    for key, value in log:
        book.apply(json.dumps(key).encode(), None if value is None else json.dumps(value).encode())
    for subject in book.subjects(deleted=True):
        for one in book.versions(subject, deleted=True):
            assert book.schema(one.id) is not None
            mode, older = book.compared(subject)
            assert isinstance(incompatible(mode, Schema("AVRO", '"int"'), older), list)
    taken = {one.id for name in book.subjects(deleted=True) for one in book.versions(name, deleted=True)}
    number = refusal(book.register, "quite new", Schema("AVRO", '"double"'))
    if number is None:
        found, _ = book.register("quite new", Schema("AVRO", '"double"'))
        assert found not in taken
