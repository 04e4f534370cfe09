"""Elections between the look at the marks' records and a write are noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.position import Fingerprint
from distributary.reducers.topic_identity import LeaderChanged, Leaders, Truncated, check_records, checkable

EPOCHS = st.dictionaries(st.integers(0, 5), st.integers(-1, 9))


@given(EPOCHS, EPOCHS)
def test_leaders_are_confirmed_unless_a_known_partition_has_another_epoch(
    before: dict[int, int], now: dict[int, int]
) -> None:
    changed = [p for p in before.keys() & now.keys() if before[p] != now[p]]
    try:
        Leaders("t", before).compare(now)
        assert not changed
    except LeaderChanged:
        assert changed


def test_changed_leader_is_named_with_topic_and_epochs() -> None:
    with pytest.raises(LeaderChanged, match=r"partition 1 of odds has a new leader \(epoch 4, it was 3\)"):
        Leaders("odds", {0: 3, 1: 3}).compare({0: 3, 1: 4})


def recognise(
    log: dict[int, int], known: Fingerprint, *, earliest: int = 0, compacted: bool = False
) -> dict[int, dict[int, int]]:
    """Look for one record in partition 0, whose records have these checksums."""
    end = max(log, default=-1) + 1
    wanted = checkable([(0, known)], {0: earliest}, {0: end})
    check_records(wanted, {(0, offset): crc for offset, crc in log.items()}, lambda: compacted)
    return wanted


def test_the_record_at_the_mark_is_recognised() -> None:
    assert recognise({0: 7, 1: 8, 2: 9}, Fingerprint(1, 8)) == {0: {1: 8}}


def test_another_record_at_the_mark_is_truncated() -> None:
    with pytest.raises(Truncated, match="partition 0 has another record at 1"):
        recognise({0: 7, 1: 5, 2: 9}, Fingerprint(1, 8))


def test_log_that_ends_before_the_record_is_truncated() -> None:
    with pytest.raises(Truncated, match="partition 0 ends at 1, the view stands at 1"):
        recognise({0: 7}, Fingerprint(1, 8))


def test_record_that_retention_removed_is_not_checked() -> None:
    assert recognise({5: 7}, Fingerprint(1, 8), earliest=5) == {}


def test_missing_record_is_accepted_only_with_compaction() -> None:
    recognise({0: 7, 2: 9}, Fingerprint(1, 8), compacted=True)
    with pytest.raises(Truncated, match="no record at 1"):
        recognise({0: 7, 2: 9}, Fingerprint(1, 8))


@given(st.lists(st.integers(0, 3), min_size=1), st.data())
def test_every_cut_below_the_mark_is_truncated(log: list[int], data: st.DataObject) -> None:
    """Records after the cut are new ones, whose checksums differ from those that were there."""
    mark = data.draw(st.integers(0, len(log) - 1))
    cut = data.draw(st.integers(0, len(log)))
    regrown = [*log[:cut], *data.draw(st.lists(st.integers(10, 13), max_size=2 * len(log)))]
    known = Fingerprint(mark, log[mark])
    if mark < cut:
        recognise(dict(enumerate(regrown)), known)
    else:
        with pytest.raises(Truncated):
            recognise(dict(enumerate(regrown)), known)
