"""Many records that cannot be folded: each is kept whole, and the view continues."""

from __future__ import annotations

import time

import pytest
from tests.support.clock import LIMIT
from tests.support.stack import Feeding

from distributary.model.build import Build

pytestmark = pytest.mark.slow


async def test_a_thousand_dead_letters_do_not_restart_the_view(feeding: Feeding) -> None:
    view = await feeding.view(feed={"partitions": 2})
    await feeding.live(view, engine="realtime")
    store = feeding.stack.writer()
    build = Build(view, store.views()[view].live)
    before = store.build(build)
    assert before is not None
    began = time.monotonic()
    feeding.produce([("good", {"n": 1}), (b"\xff\x00\x01", {"n": 1}), (None, {"n": 2})])
    feeding.produce((f"k{n % 7}", b"{broken %d" % n) for n in range(1_000))
    feeding.produce([("good", {"n": 2})])
    await feeding.rows_become(view, {"good": {"n": 2}})
    await feeding.until(view, lambda status: status.get("dead_letters") == 1_002)
    took = time.monotonic() - began
    after = store.build(build)
    store.close()
    assert after is not None
    assert after.generation == before.generation, "the query was restarted on the way"
    assert took < 20 * LIMIT, f"1,002 dead letters took {took:.0f} s"
    letters = feeding.stack.read(f"{feeding.topic}.dead-letters", 1_002)
    assert {letter.value() for letter in letters} >= {b"{broken %d" % n for n in range(1_000)}
    reasons = {
        dict(letter.headers() or []).get("distributary-key"): dict(letter.headers() or [])[
            "distributary-reason"
        ]
        for letter in letters
    }
    assert reasons[b"\xff\x00\x01"] == b"the row key is not UTF-8 (byte 1)"
    assert reasons[None] == b"no row key: the record has no key"
