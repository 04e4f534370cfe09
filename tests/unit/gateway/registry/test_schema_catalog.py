"""The registry's state is a fold of its topic, also of a compacted one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.inline_registry import register

from distributary.errors import GatewayError
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.schema_catalog import SchemaCatalog
from distributary.gateway.registry.schemas_topic_records import Record

SUBJECTS = ("a", "b")
SCHEMAS = [Schema("AVRO", json.dumps(name)) for name in ("int", "string", "bytes")]


class Registry:
    """A catalog and the records that it is folded from."""

    def __init__(self) -> None:
        self.log: list[Record] = []
        self.catalog = SchemaCatalog()
        self.write(self.catalog.set_compatibility("", "NONE"))

    def write(self, records: list[Record]) -> None:
        for record in records:
            self.log.append(record)
            self.catalog.apply(*record)

    def run(self, step: tuple[str, str, int]) -> int | None:
        what, subject, at = step
        if what == "register":
            found, records = register(self.catalog, subject, SCHEMAS[at])
            self.write(records)
            return found
        versions = (
            self.catalog.versions(subject, deleted=True)
            if subject in self.catalog.subjects(deleted=True)
            else []
        )
        if versions:
            one = versions[at % len(versions)]
            self.write(self.catalog.delete([one], permanent=one.deleted))
        return None


def contents(catalog: SchemaCatalog) -> Any:
    return [
        (
            name,
            [(one.number, one.id, one.schema, one.deleted) for one in catalog.versions(name, deleted=True)],
        )
        for name in catalog.subjects(deleted=True)
    ]


STEPS = st.lists(
    st.tuples(st.sampled_from(("register", "delete")), st.sampled_from(SUBJECTS), st.integers(0, 2)),
    max_size=20,
)


@settings(max_examples=60)
@given(STEPS, st.data())
def test_compacted_topic_folds_to_the_same_state(
    steps: list[tuple[str, str, int]], data: st.DataObject
) -> None:
    registry = Registry()
    for step in steps:
        registry.run(step)
    clean = data.draw(st.integers(0, len(registry.log)))
    last = {key: at for at, (key, _) in enumerate(registry.log[:clean])}
    head = [one for at, one in enumerate(registry.log[:clean]) if last[one[0]] == at and one[1] is not None]
    again = SchemaCatalog()
    for record in [*head, *registry.log[clean:]]:
        again.apply(*record)
    assert contents(again) == contents(registry.catalog)
    assert register(again, "new", Schema("AVRO", '"double"')) == register(
        registry.catalog, "new", Schema("AVRO", '"double"')
    )


@settings(max_examples=60)
@given(STEPS)
def test_id_never_means_another_schema(steps: list[tuple[str, str, int]]) -> None:
    registry = Registry()
    identities: dict[int, str] = {}
    for step in steps:
        found = registry.run(step)
        if found is not None:
            assert identities.setdefault(found, SCHEMAS[step[2]].identity) == SCHEMAS[step[2]].identity


def test_schema_registered_again_keeps_its_id_and_version() -> None:
    registry = Registry()
    assert registry.run(("register", "a", 0)) == 1
    assert registry.run(("register", "b", 0)) == 1
    assert registry.run(("register", "a", 1)) == 2
    spaced = Schema("AVRO", ' "int" ')
    assert register(registry.catalog, "a", spaced) == (1, [])
    assert [one.number for one in registry.catalog.versions("a")] == [1, 2]


def code_of(call: Any, *args: Any, **more: Any) -> int:
    with pytest.raises(GatewayError) as caught:
        call(*args, **more)
    return caught.value.error_code


def test_missing_entry_is_an_error_with_its_code() -> None:
    registry = Registry()
    registry.run(("register", "a", 0))
    catalog = registry.catalog
    assert code_of(catalog.versions, "z") == 40401
    assert code_of(catalog.version, "a", "2") == 40402
    for odd in ("0", "x", "-2", "²", "9" * 30):
        assert code_of(catalog.version, "a", odd) == 42202
    assert code_of(catalog.look_up, "a", SCHEMAS[1]) == 40403
    assert code_of(catalog.compatibility, "a", exact=True) == 40408
    registry.write(catalog.set_compatibility("a", "BACKWARD"))
    assert code_of(register, catalog, "a", SCHEMAS[1]) == 409


def test_invalid_record_is_skipped() -> None:
    catalog = SchemaCatalog()
    for key, value in ((None, b"x"), (b"{", b"{}"), (b"5", b"5"), (b'{"keytype":"NOOP"}', None),
                       (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":"x"}')):  # fmt: skip
        catalog.apply(key, value)
    assert catalog.subjects(deleted=True) == []
