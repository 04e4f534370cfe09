"""The synchronous subscriber and the command line against the whole stack."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from decimal import Decimal
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.stack import Feeding

import distributary

pytestmark = pytest.mark.slow


def command(feeding: Feeding, *words: str) -> subprocess.Popen[str]:
    config = str(feeding.stack.folder / "distributary.toml")
    argv = [sys.executable, "-m", "distributary.cli", "--config", config, "subscribe", *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def test_sync_subscriber_and_command_get_changes(feeding: Feeding) -> None:
    view = await feeding.view(key="id", feed={"partitions": 1, "partitioned_by": "id"})
    feeding.produce([("a", b'{"id":"a","price":1.50}'), ("b", b'{"id":"b","price":2}')])
    await feeding.rows_become(view, {"a": {"id": "a", "price": 1.5}, "b": {"id": "b", "price": 2}})
    await asyncio.to_thread(follow, feeding, view)
    await asyncio.to_thread(run, feeding, view)


def follow(feeding: Feeding, view: str) -> None:
    before = threading.active_count()
    with distributary.subscribe_sync(view, control=feeding.stack.addresses["control"]) as changes:
        assert str(changes.rows["a"]["price"]) == "1.50"
        assert next(changes).op == "snapshot"
        assert changes.next(timeout=0.05) is None
        feeding.produce([("a", b'{"id":"a","price":1.60}'), ("c", {"id": "c"}), ("b", None)])
        found: list[tuple[Any, ...]] = []
        for change in changes:
            found.append((change.op, change.key, dict(change.changed)))
            if len(found) == 2:
                break
        assert found == [("change", "a", {"price": Decimal("1.60")}), ("add", "c", {})]
        assert changes.rows.keys() == {"a", "b", "c"}
    assert list(changes) == []
    assert threading.active_count() == before


def run(feeding: Feeding, view: str) -> None:
    text, errors = command(feeding, view, "--json", "--max", "0").communicate(timeout=30 * LIMIT)
    assert errors == ""
    (state,) = [json.loads(line) for line in text.splitlines()]
    assert (state["op"], state["rows"]["c"]) == ("snapshot", {"id": "c"})

    process = command(feeding, view, "--json", "--max", "2", "--where", "price = 3.0")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert (first["op"], first["rows"]) == ("snapshot", {})
    feeding.produce(
        [("c", b'{"id":"c","price":3.0}'), ("a", {"id": "a", "x": 1}), ("c", {"id": "c", "price": 4})]
    )
    text, errors = process.communicate(timeout=30 * LIMIT)
    assert (process.returncode, errors) == (0, "")
    added, removed = text.splitlines()
    assert '"row":{"id":"c","price":3.0}' in added, "numbers keep their digits"
    assert (json.loads(added)["op"], json.loads(removed)["op"]) == ("add", "remove")
    assert json.loads(added)["position"].startswith(first["position"].split(":")[0])

    process = command(feeding, "no-such-view", "--json", "--max", "0")
    text, errors = process.communicate(timeout=30 * LIMIT)
    assert (process.returncode, text) == (1, "")
    message = json.loads(errors)["error"]
    assert "unknown channel" in message["message"]
    assert "Traceback" not in errors
