"""Stacks that run are found by commands that were not told of them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from distributary.control.api_client import DATA_DIR, find_control, stack_config
from distributary.errors import StackNotRunning
from distributary.stack import running_stacks, stack_file
from distributary.stack.processes import birth
from distributary.stack.stack_file import ComponentState, Phase, StackState


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
    running_stacks.register(name, folder)
    return folder


def test_only_running_stack_is_found(tmp_path: Path) -> None:
    demo = run(tmp_path / "elsewhere" / "demo", "demo")
    assert running_stacks.running() == [demo]
    assert stack_config(None, {}).data_dir == demo
    assert find_control(None, {}) == "http://demo"


def test_stack_of_this_folder_is_preferred(tmp_path: Path) -> None:
    run(tmp_path / "elsewhere", "other")
    run(Path.cwd() / ".distributary", "mine")
    assert find_control(None, {}) == "http://mine"


def test_one_of_several_stacks_must_be_chosen(tmp_path: Path) -> None:
    one, _two = run(tmp_path / "one", "one"), run(tmp_path / "two", "two")
    with pytest.raises(StackNotRunning, match="but there run") as refused:
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
    assert running_stacks.running() == []
    assert list(running_stacks.folder().iterdir()) == []
    run(tmp_path / "left", "left")
    running_stacks.unregister("left")
    assert running_stacks.running() == []


def test_entries_in_a_folder_that_others_can_write_to_are_ignored(tmp_path: Path) -> None:
    run(tmp_path / "planted", "planted")
    running_stacks.folder().chmod(0o777)
    assert running_stacks.running() == []


def test_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    running_stacks.folder().symlink_to(tmp_path)
    run(tmp_path / "mine", "mine")
    assert running_stacks.running() == []
    assert not list(tmp_path.glob("stack-*"))
