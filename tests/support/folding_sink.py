"""A subscriber that folds what it is sent and checks every promise."""

from __future__ import annotations

import json
from typing import Any

from distributary.model.position import Position
from distributary.publisher.codec.codes import Ending
from distributary.publisher.codec.publication import Publication
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.state_budget import Turn
from distributary.publisher.hub.subscription import Initial, Outcome, Recovered, Waiting


class PlainEncoder:
    """Encodes nothing: the tests look at the publications themselves."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.live: dict[Any, Any] = {}

    def encode(self, epoch: str, pubs: Any) -> Any:
        return ("pubs", epoch, list(pubs))

    def encode_notice(self, data: bytes) -> Any:
        return ("notice", json.loads(data))


class FoldingSink:
    """Implements ``Sink``; has its rows and position over several joins, as a client does."""

    def __init__(self, key: str = "plain") -> None:
        self.key = key
        self.rows: dict[str, Any] = {}
        self.position: Position | None = None
        self.outcomes: list[Outcome] = []
        self.endings: list[Ending] = []
        self.notices: list[Any] = []
        self.numbers: list[int] = []
        self.attached = False

    def encoder(self) -> Any:
        return PlainEncoder(self.key)

    def room(self) -> int:
        return 1 << 20

    def send_outcome(self, outcome: Outcome) -> None:
        assert not self.attached, "told twice"
        self.attached = True
        self.outcomes.append(outcome)
        if isinstance(outcome, Initial):
            self._take(outcome.snapshot)
        elif isinstance(outcome, Recovered):
            assert self.position is not None
            assert outcome.epoch == self.position.epoch
            self._fold(outcome.epoch, list(outcome.publications))
            assert outcome.seq >= self.position.seq
            self.position = Position(outcome.epoch, outcome.seq)

    def send_snapshot(self, snapshot: Snapshot, stale: bool) -> None:
        assert isinstance(self.outcomes[-1], Waiting)
        assert self.attached
        self._take(snapshot)

    def release_when_read(self, turn: Turn) -> None:
        turn.end()

    def end(self, ending: Ending) -> None:
        assert self.attached, "ended before it was told"
        self.attached = False
        self.endings.append(ending)

    def write(self, data: Any) -> None:
        assert self.attached, "written to while away"
        if data[0] == "pubs":
            self._fold(data[1], data[2])
        else:
            self.notices.append(data[1])

    def _take(self, snapshot: Snapshot) -> None:
        self.rows = {key: json.loads(row) for key, row in snapshot.rows}
        self.position = Position(snapshot.epoch, snapshot.seq)

    def _fold(self, epoch: str, pubs: list[Publication]) -> None:
        for number, data in pubs:
            assert self.position is not None, "a change before the state"
            assert epoch == self.position.epoch, "a change of another epoch"
            assert number > self.position.seq, f"{number} repeats: at {self.position}"
            self.position = Position(epoch, number)
            self.numbers.append(number)
            change = json.loads(data)
            key = change["key"]
            if change["op"] == "remove":
                assert self.rows.pop(key, None) is not None, f"{number} removes {key}, which is not there"
            elif change["op"] == "add":
                assert key not in self.rows, f"{number} adds {key}, which is there"
                self.rows[key] = change["row"]
            else:
                assert key in self.rows, f"{number} changes {key}, which is not there"
                self.rows[key] = change["changed"]
