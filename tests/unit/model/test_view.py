"""Whether a view is re-keyed depends on its configuration."""

from __future__ import annotations

from distributary.model.feed import Feed
from distributary.model.view import View


def test_view_needs_rekey_only_if_records_are_not_partitioned_by_its_key() -> None:
    assert View("v", "f", key="sport").needs_rekey(Feed("f", "t"), 2)
    assert not View("v", "f", key="sport").needs_rekey(Feed("f", "t"), 1)
    assert not View("v", "f", key="sport").needs_rekey(Feed("f", "t", partitioned_by="sport"), 2)
    assert not View("v", "f").needs_rekey(Feed("f", "t"), 2)
    assert not View("v", "f", key="record_key").needs_rekey(Feed("f", "t"), 2)


def test_view_needs_rekey_if_forced_on_several_partitions() -> None:
    assert View("v", "f").needs_rekey(Feed("f", "t"), 4, forced=True)
    assert not View("v", "f").needs_rekey(Feed("f", "t"), 1, forced=True)
