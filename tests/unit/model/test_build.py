from __future__ import annotations

from distributary.model.build import Definition, stored_index, stored_stale_after
from distributary.model.feed import Feed
from distributary.model.view import View


def test_indexed_fields_are_read_from_a_stored_definition() -> None:
    view = View("v", "f", index=("a", "b"))
    assert stored_index(Definition(view, Feed("f", "t")).text) == ["a", "b"]
    for text in ("", "{}", "[]", '{"view":{"index":"a"}}', '{"view":7}'):
        assert stored_index(text) == []


def test_stale_after_is_read_from_a_stored_definition() -> None:
    assert stored_stale_after('{"stale_after": 5}') == 5.0
    assert [stored_stale_after(text) for text in ("", "[]", "{}", '{"stale_after": null}')] == [None] * 4
