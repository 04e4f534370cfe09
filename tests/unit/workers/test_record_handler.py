"""How one record passes through the function: loading, retries, output."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distributary.client.record import Record
from distributary.errors import BadFunction
from distributary.workers.record_handler import (
    Abandoned,
    Out,
    Outcome,
    RecordHandler,
    load_function,
    output_records,
    retry_delay,
)

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


def test_failed_record_is_retried_with_growing_delays() -> None:
    pauses = Pauses()
    assert RecordHandler(fails(3, ValueError("no")), 3, 0.5, pauses)(RECORD) == Outcome((Out("good", b"k"),))
    assert pauses.waited == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no")])
def test_record_is_a_dead_letter_after_its_retries(error: BaseException) -> None:
    assert RecordHandler(fails(3, error), 2, 0.5, Pauses())(RECORD) == Outcome(
        (), f"{type(error).__name__}: no"
    )


def test_retry_is_abandoned_when_the_worker_stops() -> None:
    with pytest.raises(Abandoned):
        RecordHandler(fails(3, ValueError("no")), 5, 0.5, Pauses(2))(RECORD)


def test_generator_that_raises_late_has_no_output() -> None:
    def function(record: Record) -> Any:
        yield "first"
        raise ValueError("late")

    assert RecordHandler(function, 0, 0.5, Pauses())(RECORD) == Outcome((), "ValueError: late")


def test_async_function_runs_in_one_loop_for_all_records() -> None:
    loops = set()

    async def function(record: Record) -> str:
        await asyncio.sleep(0)
        loops.add(id(asyncio.get_running_loop()))
        return "x"

    handler = RecordHandler(function, 0, 0.5, Pauses())
    assert [handler(RECORD), handler(RECORD)] == [Outcome((Out("x", b"k"),))] * 2
    handler.close()
    assert len(loops) == 1


def test_retry_delay_is_bounded() -> None:
    assert retry_delay(0.5, 100) == 30.0


def several() -> Iterator[Any]:
    yield "a"
    yield None
    yield Out(b"b", "other", topic="u")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, []),
        (b"", [Out(b"", b"k")]),
        ("text", [Out("text", b"k")]),
        ({"n": 1, "ü": [True, None]}, [Out('{"n":1,"ü":[true,null]}', b"k")]),
        ([1, 2], [Out("[1,2]", b"k")]),
        (0, [Out("0", b"k")]),
        (Out(None, b"x"), [Out(None, b"x")]),
    ],
)
def test_result_is_converted_to_output_records(result: Any, expected: list[Out]) -> None:
    assert list(output_records(result, RECORD)) == expected


def test_generator_gives_several_output_records() -> None:
    assert list(output_records(several(), RECORD)) == [Out("a", b"k"), Out(b"b", "other", topic="u")]


def test_result_that_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match="it returned a object, which cannot be written as JSON"):
        list(output_records(object(), RECORD))


MODULE = """
import json
LIMIT = 3
def charge(record): return record
def charge_all(): pass
def with_default(record, extra=1): pass
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "billing_for_test.py").write_text(MODULE)
    (tmp_path / "broken_for_test.py").write_text("1 / 0")
    (tmp_path / "lacking_for_test.py").write_text("import no_such_package_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("name", ["charge", "with_default"])
def test_function_is_loaded(name: str) -> None:
    assert load_function(f"billing_for_test:{name}").__name__ == name


@pytest.mark.parametrize(
    ("text", "expected_error"),
    [
        ("billing_for_test", "is not module:function"),
        (":charge", "is not module:function"),
        ("no_such_module:f", "module 'no_such_module' not found"),
        ("billing_for_test.sub:f", "module 'billing_for_test.sub' not found"),
        ("broken_for_test:f", "cannot be imported: ZeroDivisionError"),
        ("lacking_for_test:f", "requires 'no_such_package_at_all'"),
        ("billing_for_test:chargr", "has no 'chargr'.*Did you mean billing_for_test:charge?"),
        ("billing_for_test:LIMIT", "is a int, not a function"),
        ("billing_for_test:charge_all", "does not take one argument"),
    ],
)
def test_bad_function_is_refused(text: str, expected_error: str) -> None:
    with pytest.raises(BadFunction) as found:
        load_function(text)
    assert re.search(expected_error, f"{found.value.message} {found.value.hint}")
