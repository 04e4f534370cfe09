"""What the measuring subscriber makes of frames."""

from __future__ import annotations

from bench.listen import Tally


def push(data: bytes) -> bytes:
    return b'{"push":{"channel":"board","pub":{"data":%b,"offset":7}}}' % data


def test_publications_of_a_frame_are_counted_and_timed_one_by_one() -> None:
    tally = Tally(stamps=True)
    two = b"\n".join([push(b'{"changed":{"t":100},"time":5}'), push(b'{"changed":{"t":140},"time":5}')])
    assert tally.take(two, 150) is None
    assert tally.take(push(b'{"row":{"id":"a","t":200},"time":6}'), 260) is None
    assert (tally.publications, tally.frames) == (3, 2)
    assert list(tally.pairs) == [100, 50, 140, 10, 200, 60]


def test_the_rows_of_a_snapshot_are_not_publications() -> None:
    tally = Tally(stamps=True)
    tally.take(b'{"id":1,"connect":{}}\n{"id":2,"subscribe":{"data":{"rows":[["a",{"t":1}]]}}}', 9)
    assert (tally.joined, tally.publications, list(tally.pairs)) == (1, 0, [])


def test_a_ping_is_answered() -> None:
    assert Tally(stamps=False).take(b"{}", 1) == b"{}"


def test_a_push_that_shares_a_frame_with_a_reply_counts() -> None:
    tally = Tally(stamps=False)
    tally.take(b'{"id":2,"subscribe":{}}\n' + push(b"{}"), 1)
    assert (tally.joined, tally.publications) == (1, 1)


def test_whatever_ends_a_subscription_is_trouble() -> None:
    tally = Tally(stamps=False)
    tally.take(b'{"push":{"channel":"board","unsubscribe":{"code":2500}}}', 1)
    tally.take(b'{"id":3,"error":{"code":102}}', 1)
    assert len(tally.counts()["trouble"]) == 2
    assert tally.publications == 0
