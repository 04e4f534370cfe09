"""The files by which pools are found and scaled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distributary.errors import WorkerMissing
from distributary.stack.processes import birth
from distributary.workers import pool_state
from distributary.workers.pool_state import PoolState, ScaleRequest


def mine(name: str = "shop.orders.charge") -> PoolState:
    created = birth(os.getpid())
    return PoolState(
        name=name,
        pid=os.getpid(),
        birth=created,
        function="m:f",
        topic="shop.orders",
        group=name,
        minimum=1,
        maximum=4,
    )


def test_running_pool_is_found(tmp_path: Path) -> None:
    pool_state.write_state(tmp_path, mine())
    assert pool_state.running_pool(tmp_path, "shop.orders.charge") == mine()
    assert pool_state.running_pools(tmp_path) == [mine()]


def test_pool_whose_process_is_gone_is_not_found(tmp_path: Path) -> None:
    gone = mine()
    gone.birth += "1"
    pool_state.write_state(tmp_path, gone)
    assert pool_state.running_pools(tmp_path) == []


def test_unknown_pool_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    pool_state.write_state(tmp_path, mine())
    with pytest.raises(WorkerMissing) as found:
        pool_state.running_pool(tmp_path, "shop.orders.chrge")
    assert found.value.hint == "Did you mean shop.orders.charge?"
    with pytest.raises(WorkerMissing, match="no worker 'x' runs in"):
        pool_state.running_pool(tmp_path / "elsewhere", "x")


def test_scale_request_is_read_and_removed_with_the_pool(tmp_path: Path) -> None:
    name = "a/b ü"
    pool_state.write_state(tmp_path, mine(name))
    assert pool_state.requested_scale(tmp_path, name) is None
    pool_state.request_scale(tmp_path, name, ScaleRequest("1", 2, 3))
    assert pool_state.requested_scale(tmp_path, name) == ScaleRequest("1", 2, 3)
    pool_state.remove_files(tmp_path, name)
    assert list((tmp_path / pool_state.FOLDER).iterdir()) == []
