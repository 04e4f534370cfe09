"""Whatever stands in the topic is read, left alone or refused; what we write is read as it was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.gateway.refusals import refusal

from distributary.gateway.registry import entries
from distributary.gateway.registry.book import Book
from distributary.gateway.registry.entries import Version
from distributary.gateway.registry.schema import Schema, incompatible

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
    assert entries.read(*entries.schema(ONE)) == ONE
    assert entries.read(*entries.gone(ONE)) == entries.Gone("s", 2)
    assert entries.read(*entries.last_id(9)) == entries.LastId(9)
    said = {"compatibilityLevel": "FULL", "alias": "x"}
    assert entries.read(*entries.setting("", said)) == entries.Setting("CONFIG", "", said)
    assert entries.read(*entries.setting("s", None)) == entries.Setting("CONFIG", "s", None)


@pytest.mark.parametrize(
    ("subject", "name"),
    [("s", "s"), (":.:s", "s"), (":.ctx:s", None), (":.ctx:", None), (":s", ":s"), ("", ""), (":.:", "")],
)
def test_only_the_default_context_is_local(subject: str, name: str | None) -> None:
    assert entries.local(subject) == name
    assert refusal(entries.local_name, subject) == (42208 if name is None else None)


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
