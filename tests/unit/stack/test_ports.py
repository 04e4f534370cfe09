"""Ports: the usual one, another when it is busy, the same at the next start."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from distributary.stack import ports as module
from distributary.stack import stack_file
from distributary.stack.ports import Ports, ephemeral, is_free


@contextmanager
def busy() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class Chooser:
    """Makes Ports and closes them after the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Ports] = []

    def __call__(self, name: str = "ports.json") -> Ports:
        self._made.append(Ports(self._folder / name))
        return self._made[-1]

    def close(self) -> None:
        """As the end of the process would."""
        for ports in self._made:
            ports.close()


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[Chooser]:
    chooser = Chooser(tmp_path)
    yield chooser
    chooser.close()


def free() -> int:
    """A port that is free, and that no outgoing connection can get meanwhile."""
    ports = Ports(Path(os.devnull))
    try:
        return ports.any_free()
    finally:
        ports.close()


def test_usual_port_is_chosen_when_it_is_free(ports: Chooser) -> None:
    usual = free()
    assert ports().choose("kafka", usual) == usual


def test_another_port_is_chosen_when_the_usual_one_is_busy(ports: Chooser) -> None:
    with busy() as usual:
        port = ports().choose("kafka", usual)
    assert port != usual
    assert is_free("127.0.0.1", port)


def test_next_start_chooses_the_same_port_again(ports: Chooser) -> None:
    with busy() as usual:
        port = ports().choose("kafka", usual)
    ports.close()
    assert ports().choose("kafka", usual) == port


def test_remembered_port_that_is_busy_is_not_chosen(ports: Chooser) -> None:
    with busy() as usual:
        first = ports().choose("kafka", usual)
        ports.close()
        with socket.create_server(("127.0.0.1", first)):
            assert ports().choose("kafka", usual) not in (first, usual)


def test_changed_configuration_overrides_the_remembered_port(ports: Chooser) -> None:
    before, after = free(), free()
    ports().choose("kafka", before)
    assert ports().choose("kafka", after) == after


def test_no_port_is_chosen_twice(ports: Chooser) -> None:
    one, usual = ports(), free()
    assert len({one.choose(name, usual) for name in "abcdef"}) == 6


def test_concurrent_stacks_choose_different_ports(ports: Chooser) -> None:
    usual = free()
    assert ports("1.json").choose("kafka", usual) == usual
    assert ports("2.json").choose("kafka", usual) != usual, "although nothing listens there yet"
    ports.close()
    assert ports("3.json").choose("kafka", usual) == usual


def test_damaged_file_is_ignored(ports: Chooser, tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text('{"kafka": [')
    usual = free()
    assert ports().choose("kafka", usual) == usual


def test_chosen_port_is_not_an_ephemeral_one(ports: Chooser) -> None:
    with busy() as usual:
        chosen = {ports().choose(name, usual) for name in "abcdefgh"}
    assert not chosen & set(ephemeral()), "one would hold it for as long as it lasts"


@pytest.mark.parametrize("port_range", ["32768\t60999\n", "10000 20000", "1024 65535", "", "none"])
def test_free_port_is_found_for_any_ephemeral_range(
    ports: Chooser, port_range: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "range").write_text(port_range)
    monkeypatch.setattr(module, "_EPHEMERAL", tmp_path / "range")
    one = ports()
    chosen = {one.any_free() for _ in range(20)}
    assert len(chosen) == 20
    assert port_range == "1024 65535" or not chosen & set(ephemeral())


def test_lock_is_not_written_through_a_link(
    ports: Chooser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    monkeypatch.setattr(stack_file, "registry_folder", lambda: tmp_path / "link")
    usual = free()
    assert ports().choose("kafka", usual) == usual
    assert not list((tmp_path / "target").iterdir())
