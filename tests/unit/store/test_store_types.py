from __future__ import annotations

from dataclasses import replace

from distributary.config.sections import Limits
from distributary.model.query import Query
from distributary.store.store_types import ViewInfo, query_limits


def test_query_limits_come_from_the_configuration() -> None:
    limits = Limits(queries_per_view=7, expensive_queries_per_view=3)
    assert query_limits(limits, Query.parse("odds", "a != 1")) == (7, 3, True)
    assert query_limits(limits, Query.parse("odds", "a = 1")) == (7, 3, False)


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
