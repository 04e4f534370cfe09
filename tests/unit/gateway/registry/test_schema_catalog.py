"""The registry as a fold: whatever compaction takes, the same is left."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import GatewayError
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.schema_catalog import Book
from distributary.gateway.registry.schemas_topic_records import Record

SUBJECTS = ("a", "b")
SCHEMAS = [Schema("AVRO", json.dumps(name)) for name in ("int", "string", "bytes")]


class Registry:
    """A book and the log that it is folded from."""

    def __init__(self) -> None:
        self.log: list[Record] = []
        self.book = Book()
        self.write(self.book.set_mode("", "NONE"))

    def write(self, records: list[Record]) -> None:
        for record in records:
            self.log.append(record)
            self.book.apply(*record)

    def do(self, step: tuple[str, str, int]) -> int | None:
        what, subject, at = step
        if what == "register":
            found, records = self.book.register(subject, SCHEMAS[at])
            self.write(records)
            return found
        versions = (
            self.book.versions(subject, deleted=True) if subject in self.book.subjects(deleted=True) else []
        )
        if versions:
            one = versions[at % len(versions)]
            self.write(self.book.delete([one], permanent=one.deleted))
        return None


def seen(book: Book) -> Any:
    return [
        (name, [(one.number, one.id, one.schema, one.deleted) for one in book.versions(name, deleted=True)])
        for name in book.subjects(deleted=True)
    ]


STEPS = st.lists(
    st.tuples(st.sampled_from(("register", "delete")), st.sampled_from(SUBJECTS), st.integers(0, 2)),
    max_size=20,
)


@settings(max_examples=60)
@given(STEPS, st.data())
def test_compaction_takes_nothing_away(steps: list[tuple[str, str, int]], data: st.DataObject) -> None:
    registry = Registry()
    for step in steps:
        registry.do(step)
    clean = data.draw(st.integers(0, len(registry.log)))
    last = {key: at for at, (key, _) in enumerate(registry.log[:clean])}
    head = [one for at, one in enumerate(registry.log[:clean]) if last[one[0]] == at and one[1] is not None]
    again = Book()
    for record in [*head, *registry.log[clean:]]:
        again.apply(*record)
    assert seen(again) == seen(registry.book)
    assert again.register("new", Schema("AVRO", '"double"')) == registry.book.register(
        "new", Schema("AVRO", '"double"')
    )


@settings(max_examples=60)
@given(STEPS)
def test_an_id_never_means_another_schema(steps: list[tuple[str, str, int]]) -> None:
    registry = Registry()
    given_out: dict[int, str] = {}
    for step in steps:
        found = registry.do(step)
        if found is not None:
            assert given_out.setdefault(found, SCHEMAS[step[2]].identity) == SCHEMAS[step[2]].identity


def test_the_same_schema_has_one_id_and_no_second_version() -> None:
    registry = Registry()
    assert registry.do(("register", "a", 0)) == 1
    assert registry.do(("register", "b", 0)) == 1
    assert registry.do(("register", "a", 1)) == 2
    spaced = Schema("AVRO", ' "int" ')
    assert registry.book.register("a", spaced) == (1, [])
    assert [one.number for one in registry.book.versions("a")] == [1, 2]


def refused(call: Any, *args: Any, **more: Any) -> int:
    with pytest.raises(GatewayError) as caught:
        call(*args, **more)
    return caught.value.number


def test_the_numbers_of_what_is_not_there() -> None:
    registry = Registry()
    registry.do(("register", "a", 0))
    book = registry.book
    assert refused(book.versions, "z") == 40401
    assert refused(book.version, "a", "2") == 40402
    for odd in ("0", "x", "-2", "²", "9" * 30):
        assert refused(book.version, "a", odd) == 42202
    assert refused(book.lookup, "a", SCHEMAS[1]) == 40403
    assert refused(book.mode, "a", exact=True) == 40408
    registry.write(book.set_mode("a", "BACKWARD"))
    assert refused(book.register, "a", SCHEMAS[1]) == 409


def test_records_of_others_are_left_out() -> None:
    book = Book()
    for key, value in ((None, b"x"), (b"{", b"{}"), (b"5", b"5"), (b'{"keytype":"NOOP"}', None),
                       (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":"x"}')):  # fmt: skip
        book.apply(key, value)
    assert book.subjects(deleted=True) == []
