"""A record's way through the function."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from distributary.client.record import Record
from distributary.workers.record_handler import Abandoned, Handled, Handler, backoff
from distributary.workers.results import Out

RECORD = Record("t", 1, 7, b"k", b"v")


class Pauses:
    def __init__(self, stop_at: int = -1) -> None:
        self.waited: list[float] = []
        self._stop_at = stop_at

    def __call__(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return len(self.waited) == self._stop_at


def fails(times: int, error: BaseException) -> Any:
    left = [times]

    def function(record: Record) -> str:
        if left[0]:
            left[0] -= 1
            raise error
        return "good"

    return function


def test_it_is_tried_again_with_growing_pauses() -> None:
    pauses = Pauses()
    assert Handler(fails(3, ValueError("no")), 3, 0.5, pauses)(RECORD) == Handled((Out("good", b"k"),))
    assert pauses.waited == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no")])
def test_after_that_it_is_a_dead_letter(error: BaseException) -> None:
    assert Handler(fails(3, error), 2, 0.5, Pauses())(RECORD) == Handled((), f"{type(error).__name__}: no")


def test_a_worker_that_stops_leaves_it_to_others() -> None:
    with pytest.raises(Abandoned):
        Handler(fails(3, ValueError("no")), 5, 0.5, Pauses(2))(RECORD)


def test_what_a_generator_raises_late_leaves_nothing_of_it() -> None:
    def function(record: Record) -> Any:
        yield "first"
        raise ValueError("late")

    assert Handler(function, 0, 0.5, Pauses())(RECORD) == Handled((), "ValueError: late")


def test_an_async_function_has_one_loop_for_all_records() -> None:
    loops = set()

    async def function(record: Record) -> str:
        await asyncio.sleep(0)
        loops.add(id(asyncio.get_running_loop()))
        return "x"

    handler = Handler(function, 0, 0.5, Pauses())
    assert [handler(RECORD), handler(RECORD)] == [Handled((Out("x", b"k"),))] * 2
    handler.close()
    assert len(loops) == 1


def test_a_pause_has_an_end() -> None:
    assert backoff(0.5, 100) == 30.0
