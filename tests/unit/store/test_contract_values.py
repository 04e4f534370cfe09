from __future__ import annotations

from dataclasses import replace

from distributary.store.store_types import ViewInfo


def test_view_is_stale_when_its_source_was_silent_for_too_long() -> None:
    info = ViewInfo(
        live="b",
        next="",
        definition='{"stale_after": 5}',
        version=0,
        last_record=1_000,
        now=7_000,
        run_id="",
    )
    assert info.stale
    assert not replace(info, definition='{"stale_after": 6}').stale
    assert not replace(info, definition="").stale
    assert not replace(info, last_record=0).stale
