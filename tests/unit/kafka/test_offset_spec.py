from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import UsageError
from distributary.kafka.offset_spec import Range, Whence, moment, parse, resolve


def at() -> float:
    return 1_000_000.0


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Whence("earliest")),
        ("end", Whence("latest")),
        ("42", Whence("offset", 42)),
        ("-10", Whence("back", 10)),
        ("15 m", Whence("time", 999_100_000)),
        ("PT1H", Whence("time", 996_400_000)),
        ("P1D", Whence("time", 913_600_000)),
        ("1970-01-02T00:00:00Z", Whence("time", 86_400_000)),
        ("1970-01-02T01:00:00.500+01:00", Whence("time", 86_400_500)),
        ("1970-01-02", Whence("time", 86_400_000)),
    ],
)
def test_places(text: str, place: Whence) -> None:
    assert parse(text, at) == place


@pytest.mark.parametrize("text", ["", "soon", "1x", "--5", "P", "PT"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(UsageError, match="no place"):
        moment(text, at) if text == "--5" else parse(text, at)


ranges = st.integers(0, 100).flatmap(
    lambda first: st.builds(
        Range, st.just(first), st.integers(first, 200), st.none() | st.integers(first, 200)
    )
)
kinds = st.sampled_from(("earliest", "latest", "offset", "back", "time", "shift", "current"))


@given(kinds, st.integers(-300, 300), ranges, st.integers(0, 300))
def test_never_outside_of_what_there_is(kind: str, value: int, held: Range, current: int) -> None:
    found = resolve(Whence(kind, value), held, current)
    assert held.first <= found <= held.end


def test_by_the_current_offset() -> None:
    held = Range(10, 50)
    assert resolve(Whence("shift", -5), held, 30) == 25
    assert resolve(Whence("current"), held, 30) == 30
    with pytest.raises(UsageError, match="no offset there"):
        resolve(Whence("shift", 1), held)
