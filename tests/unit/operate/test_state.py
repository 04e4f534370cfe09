"""stack.json: read back as written, and honest about who runs."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from distributary.operate import state
from distributary.operate.state import PartState, StackState


def me(phase: state.Phase = "ready", shift: float = 0.0) -> StackState:
    return StackState("s1", os.getpid(), psutil.Process().create_time() + shift, phase, [PartState("kafka")])


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    state.write(tmp_path, me())
    seen = state.read(tmp_path)
    assert seen == me()
    assert seen is not None
    assert seen.part("kafka").restarts == 0
    with pytest.raises(KeyError):
        seen.part("store")


def test_nothing_readable_is_none(tmp_path: Path) -> None:
    assert state.read(tmp_path) is None
    (tmp_path / state.FILE).write_text('{"stack": 5}')
    assert state.read(tmp_path) is None


def test_a_stack_runs_while_its_very_process_does(tmp_path: Path) -> None:
    state.write(tmp_path, me())
    assert state.running(tmp_path) is not None
    state.write(tmp_path, me("stopped"))
    assert state.running(tmp_path) is None
    state.write(tmp_path, me(shift=-1000.0))  # the same pid, used again by another process
    assert state.running(tmp_path) is None
