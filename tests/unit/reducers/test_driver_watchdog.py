"""A loop that does not turn ends its process, and one that turns does not."""

from __future__ import annotations

import threading
import time

from distributary.reducers.driver_watchdog import Watchdog
from distributary.service import ExitCode


def test_a_loop_that_hangs_ends_the_process() -> None:
    left: list[object] = []
    ended = threading.Event()

    def leave(code: int) -> None:
        left.append(code)
        ended.set()

    dog = Watchdog(lambda: "the JVM", lambda: left.append("killed"), hung=1.0, leave=leave).start()
    dog.turn()
    assert ended.wait(10)
    assert left == ["killed", ExitCode.JVM_HUNG], "what it was waiting for ends first"


def test_a_loop_that_turns_lives_and_one_that_was_stopped_is_not_watched() -> None:
    left: list[object] = []
    dog = Watchdog(lambda: "", hung=1.0, leave=left.append).start()
    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        dog.turn()
        time.sleep(0.05)
    dog.stop()
    time.sleep(1.6)
    assert left == []
