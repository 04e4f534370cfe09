"""stack.json: read back as written, and honest about who runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from distributary.stack import stack_file
from distributary.stack.processes import birth
from distributary.stack.stack_file import ComponentState, Phase, StackState


def me(phase: Phase = Phase.READY, shift: str = "") -> StackState:
    return StackState("s1", os.getpid(), birth(os.getpid()) + shift, phase, [ComponentState("kafka")])


def test_stack_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    stack_file.write(tmp_path, me())
    seen = stack_file.read(tmp_path)
    assert seen == me()
    assert seen is not None
    assert seen.component("kafka").restarts == 0
    with pytest.raises(KeyError):
        seen.component("store")


def test_unreadable_stack_file_is_none(tmp_path: Path) -> None:
    assert stack_file.read(tmp_path) is None
    (tmp_path / stack_file.FILE).write_text('{"stack": 5}')
    assert stack_file.read(tmp_path) is None


def test_stack_is_running_while_its_process_exists(tmp_path: Path) -> None:
    stack_file.write(tmp_path, me())
    assert stack_file.running(tmp_path) is not None
    stack_file.write(tmp_path, me(Phase.STOPPED))
    assert stack_file.running(tmp_path) is None
    stack_file.write(tmp_path, me(shift="1"))  # the same pid, used again by another process
    assert stack_file.running(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel keeps the moment itself")
def test_birth_does_not_depend_on_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reckons the moment of its own start from the clock, and that of processes from there."""
    stack_file.write(tmp_path, me())
    real = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) + 3_600)
    assert stack_file.running(tmp_path) is not None
