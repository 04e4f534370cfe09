"""Any record of the topic is parsed or skipped, and what the registry writes is parsed as it was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.inline_registry import incompatibilities, register
from tests.unit.gateway.error_code import error_code

from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.schema_catalog import SchemaCatalog
from distributary.gateway.registry.schemas_topic_records import (
    LastId,
    SchemaVersion,
    Setting,
    VersionRemoved,
    config_record,
    last_id_record,
    local_subject,
    parse_record,
    strip_context,
    tombstone,
    version_record,
)

RULED = {"ruleSet": {"domainRules": []}, "references": [{"name": "a", "subject": "b", "version": 1}]}
ONE = SchemaVersion(
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


def test_record_is_parsed_as_it_was_created() -> None:
    assert parse_record(*version_record(ONE)) == ONE
    assert parse_record(*tombstone(ONE)) == VersionRemoved("s", 2)
    assert parse_record(*last_id_record(9)) == LastId(9)
    config = {"compatibilityLevel": "FULL", "alias": "x"}
    assert parse_record(*config_record("", config)) == Setting("CONFIG", "", config)
    assert parse_record(*config_record("s", None)) == Setting("CONFIG", "s", None)


@pytest.mark.parametrize(
    ("subject", "name"),
    [("s", "s"), (":.:s", "s"), (":.ctx:s", None), (":.ctx:", None), (":s", ":s"), ("", ""), (":.:", "")],
)
def test_subject_of_another_context_is_rejected(subject: str, name: str | None) -> None:
    assert strip_context(subject) == name
    assert error_code(local_subject, subject) == (42208 if name is None else None)


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
def test_any_topic_is_folded_and_no_id_is_assigned_twice(log: list[tuple[Any, Any]]) -> None:
    catalog = SchemaCatalog()
    for key, value in log:
        catalog.apply(json.dumps(key).encode(), None if value is None else json.dumps(value).encode())
    for subject in catalog.subjects(deleted=True):
        for one in catalog.versions(subject, deleted=True):
            assert catalog.schema(one.id) is not None
            level, older = catalog.compatibility_basis(subject)
            assert isinstance(incompatibilities(level, Schema("AVRO", '"int"'), older), list)
    taken = {
        one.id for name in catalog.subjects(deleted=True) for one in catalog.versions(name, deleted=True)
    }
    code = error_code(register, catalog, "quite new", Schema("AVRO", '"double"'))
    if code is None:
        found, _ = register(catalog, "quite new", Schema("AVRO", '"double"'))
        assert found not in taken
