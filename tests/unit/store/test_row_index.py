"""Index entries of one value are adjacent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.store.row_index import entry, key_of, value_range

fields = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=4)
values = st.text(st.sampled_from("ab\0\x01é"), max_size=4) | st.just("x" * 500)
keys = st.text(st.sampled_from("ab\0\x01é"), max_size=4)


@given(fields, values, keys, fields, values)
def test_entry_is_within_the_bounds_of_its_value_only(
    field: str, value: str, key: str, other_field: str, other_value: str
) -> None:
    one = entry(field, value, key).encode()
    assert key_of(one.decode()) == key
    first, after = (bound.encode() for bound in value_range(field, value))
    assert first <= one < after
    first, after = (bound.encode() for bound in value_range(other_field, other_value))
    assert (first <= one < after) == ((field, value) == (other_field, other_value))
