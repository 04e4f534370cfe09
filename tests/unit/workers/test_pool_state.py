"""The files by which crews are found and asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distributary.errors import WorkerMissing
from distributary.stack.processes import birth
from distributary.workers import pool_state
from distributary.workers.pool_state import CrewState, Wish


def mine(name: str = "shop.orders.charge") -> CrewState:
    created = birth(os.getpid())
    return CrewState(name, os.getpid(), created, "m:f", "shop.orders", name, 1, 4)


def test_a_crew_that_runs_is_found(tmp_path: Path) -> None:
    pool_state.write_state(tmp_path, mine())
    assert pool_state.crew(tmp_path, "shop.orders.charge") == mine()
    assert pool_state.crews(tmp_path) == [mine()]


def test_one_whose_process_is_gone_is_not(tmp_path: Path) -> None:
    gone = mine()
    gone.birth += "1"
    pool_state.write_state(tmp_path, gone)
    assert pool_state.crews(tmp_path) == []


def test_the_nearest_name_is_told(tmp_path: Path) -> None:
    pool_state.write_state(tmp_path, mine())
    with pytest.raises(WorkerMissing) as found:
        pool_state.crew(tmp_path, "shop.orders.chrge")
    assert found.value.hint == "Did you mean shop.orders.charge?"
    with pytest.raises(WorkerMissing, match="no worker 'x' runs in"):
        pool_state.crew(tmp_path / "elsewhere", "x")


def test_a_wish_is_read_back_and_goes_with_the_crew(tmp_path: Path) -> None:
    name = "a/b ü"
    pool_state.write_state(tmp_path, mine(name))
    assert pool_state.asked(tmp_path, name) is None
    pool_state.ask(tmp_path, name, Wish("1", 2, 3))
    assert pool_state.asked(tmp_path, name) == Wish("1", 2, 3)
    pool_state.forget(tmp_path, name)
    assert list((tmp_path / pool_state.FOLDER).iterdir()) == []
