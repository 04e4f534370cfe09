from __future__ import annotations

from distributary.store.store_types import ViewInfo


def test_view_is_stale_when_its_source_was_silent_for_too_long() -> None:
    info = ViewInfo("b", "", '{"stale_after": 5}', 0, 1_000, 7_000, "")
    assert info.stale
    assert not info._replace(definition='{"stale_after": 6}').stale
    assert not info._replace(definition="").stale
    assert not info._replace(fresh=0).stale
