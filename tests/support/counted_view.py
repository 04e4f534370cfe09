"""A view whose content is known for every position, and the process that writes it.

Change number ``s`` of the view is a pure function of ``s``: its row and its values. So what a subscriber
receives can be compared with what it must be, at any position, during thousands of changes a second. Each
hot row counts its changes in ``n`` and moves between groups, so that rows enter, change in and leave a
filter on ``g``; cold rows only make the view too large for one page.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from distributary.model.build import Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from tests.support.reducer_harness import ReducerHarness

COLD, HOT, GROUPS, TURN = 1_100, 24, 4, 5
COUNTED = Definition(View("counted", "counted", key="id"), Feed("counted", "counted"))
VIEW = COUNTED.view.name

Row = dict[str, Any]
Wanted = Callable[[str, Row], bool]


def hot(row: int, n: int) -> Row:
    """A hot row after its n-th change."""
    return {"g": (row + n // TURN) % GROUPS, "n": n}


def step(s: int) -> tuple[str, Row | None, Row]:
    """Change number s: the row's key, what it was, what it is."""
    if s <= COLD:
        return f"c{s}", None, {"g": -1, "n": 1}
    turn, row = divmod(s - COLD - 1, HOT)
    return f"h{row}", hot(row, turn) if turn else None, hot(row, turn + 1)


def rows_at(s: int) -> dict[str, Row]:
    """All rows after change number s."""
    rows: dict[str, Row] = {f"c{i}": {"g": -1, "n": 1} for i in range(1, min(s, COLD) + 1)}
    turns, more = divmod(max(0, s - COLD), HOT)
    for row in range(HOT):
        n = turns + (row < more)
        if n:
            rows[f"h{row}"] = hot(row, n)
    return rows


class Witness:
    """Compares what one subscriber of a query receives with what it must be; ``faults`` lists differences."""

    def __init__(self, wanted: Wanted) -> None:
        self.seq = 0
        self.rows: dict[str, Row] = {}
        self.faults: list[str] = []
        self.changes = 0
        self._wanted = wanted

    def state(self, seq: int, rows: list[tuple[str, Row]]) -> None:
        """Check a snapshot at a position."""
        self.seq, self.rows = seq, dict(rows)
        if len(rows) != len(self.rows):
            self.faults.append(f"a state at {seq} has a row twice")
        must = {key: row for key, row in rows_at(seq).items() if self._wanted(key, row)}
        if self.rows != must:
            wrong = {k for k in must.keys() | self.rows.keys() if must.get(k) != self.rows.get(k)}
            self.faults.append(f"the state at {seq} is wrong in {sorted(wrong)[:3]}")

    def change(self, seq: int, data: dict[str, Any]) -> None:
        """Check a change."""
        self.changes += 1
        if seq <= self.seq:
            self.faults.append(f"{seq} came after {self.seq}: a repeat")
            return
        self.passed(seq - 1)
        self.seq = seq
        key, old, new = step(seq)
        was, now = old is not None and self._wanted(key, old), self._wanted(key, new)
        op = "change" if was and now else "add" if now else "remove" if was else "nothing"
        if (data["op"], data["key"]) != (op, key):
            self.faults.append(f"{seq} is {data['op']} {data['key']}, not {op} {key}")
        elif op == "change":
            self.rows[key] = self.rows.get(key, {}) | data["changed"]
        elif op == "add":
            self.rows[key] = data["row"]
        else:
            self.rows.pop(key, None)
        if now and self.rows.get(key) != new:
            self.faults.append(f"{seq} makes {key} {self.rows.get(key)}, not {new}")

    def passed(self, seq: int) -> None:
        """Check that no change up to a position is missing."""
        for missing in range(self.seq + 1, seq + 1):
            key, old, new = step(missing)
            if self._wanted(key, new) or (old is not None and self._wanted(key, old)):
                self.faults.append(f"{missing} did not come after {self.seq}: a gap")
                break
        self.seq = max(self.seq, seq)


def main(url: str, rate: int, group: int = 12) -> None:
    """Write the view at ``rate`` changes a second until a line comes on stdin; print how far it got."""
    from distributary.store.redis_writer import RedisWriter

    writer = RedisWriter(url)
    writer.define(VIEW, COUNTED.build, COUNTED.text)
    writer.close()
    folding = ReducerHarness(url, COUNTED)
    s = 0

    def fold(count: int) -> None:
        nonlocal s
        rows = {key: new for key, _, new in map(step, range(s + 1, s + count + 1))}
        assert len(rows) == count
        folding.fold(**rows)
        s += count

    fold(COLD)
    folding.go_live()
    print(json.dumps({"ready": True, "component": "counting", "addresses": {}}), flush=True)
    stopping = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        stopping.set()

    threading.Thread(target=listen, daemon=True).start()
    began = time.monotonic()
    while not stopping.is_set():
        fold(group)
        ahead = began + (s - COLD) / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    print(json.dumps({"seq": s, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
