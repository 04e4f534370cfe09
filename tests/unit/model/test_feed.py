"""What a feed describes, and when its rows belong to another build."""

from __future__ import annotations

from distributary.model.feed import Feed
from distributary.model.view import View


def test_values_name_their_schema_in_avro_or_when_the_feed_says_so() -> None:
    assert Feed("f", "t", "avro").named_schemas
    assert Feed("f", "t", framed=True).named_schemas
    assert not Feed("f", "t").named_schemas


def test_another_format_or_framing_is_another_build() -> None:
    feeds = [Feed("f", "t"), Feed("f", "t", framed=True), Feed("f", "t", "avro")]
    assert len({View("v", "f").build_id(feed) for feed in feeds}) == 3
