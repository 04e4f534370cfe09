"""The stack file and the registry: read as written, and only running stacks count."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from distributary.control.api_client import DATA_DIR, find_control, stack_config
from distributary.errors import StackNotRunning
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


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other stack of this user, and no configuration."""
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(notes))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


def run(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True)
    control = ComponentState("control", Phase.READY, 1, addresses={"http": f"http://{name}"})
    stack_file.write(folder, StackState(name, os.getpid(), birth(os.getpid()), Phase.READY, [control]))
    stack_file.register(name, folder)
    return folder


def test_only_running_stack_is_found(tmp_path: Path) -> None:
    demo = run(tmp_path / "elsewhere" / "demo", "demo")
    assert stack_file.all_running() == [demo]
    assert stack_config(None, {}).data_dir == demo
    assert find_control(None, {}) == "http://demo"


def test_stack_of_this_folder_is_preferred(tmp_path: Path) -> None:
    run(tmp_path / "elsewhere", "other")
    run(Path.cwd() / ".distributary", "mine")
    assert find_control(None, {}) == "http://mine"


def test_one_of_several_stacks_must_be_chosen(tmp_path: Path) -> None:
    one, _two = run(tmp_path / "one", "one"), run(tmp_path / "two", "two")
    with pytest.raises(StackNotRunning, match="but in") as refused:
        find_control(None, {})
    assert f"{DATA_DIR}={one}" in refused.value.hint
    assert find_control(None, {DATA_DIR: str(one)}) == "http://one"


def test_given_address_is_the_only_one_tried(tmp_path: Path) -> None:
    run(tmp_path / "other", "other")
    with pytest.raises(StackNotRunning):
        find_control(None, {DATA_DIR: str(tmp_path / "empty")})


def test_entries_of_ended_stacks_are_removed(tmp_path: Path) -> None:
    folder = run(tmp_path / "gone", "gone")
    stack_file.write(folder, StackState("gone", 2**22 + 1, "", Phase.READY))
    assert stack_file.all_running() == []
    assert list(stack_file.registry_folder().iterdir()) == []
    run(tmp_path / "left", "left")
    stack_file.unregister("left")
    assert stack_file.all_running() == []


def test_entries_in_a_folder_that_others_can_write_to_are_ignored(tmp_path: Path) -> None:
    run(tmp_path / "planted", "planted")
    stack_file.registry_folder().chmod(0o777)
    assert stack_file.all_running() == []


def test_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    stack_file.registry_folder().symlink_to(tmp_path)
    run(tmp_path / "mine", "mine")
    assert stack_file.all_running() == []
    assert not list(tmp_path.glob("stack-*"))
