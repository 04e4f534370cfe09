"""A reducer without Spark."""

from __future__ import annotations

import json
import time
from typing import Any

from distributary.model.build import Build, Definition
from distributary.reducers.record_codec import Packed
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer, ReducerOptions
from distributary.store.redis_writer import RedisWriter


class ReducerHarness:
    """The real reducer of one partition, called directly."""

    def __init__(self, url: str, definition: Definition, *, log_length: int = 100_000) -> None:
        self.store = RedisWriter(url, log_length=log_length)
        self.build = Build(definition.view.name, definition.build)
        self._definition = definition
        self._offset = 0
        self._claim()

    def _claim(self) -> None:
        claim = self.store.claim(self.build, "topic-id", 1).claim
        view = self._definition.view
        self._reducer = Reducer(
            self.store,
            self.build,
            0,
            claim,
            ReducerOptions(view=view, rule=rule_of(view), write_dead_letters=lambda letters: None),
        )
        self._reducer.open()

    def fold(self, **rows: dict[str, Any] | None) -> None:
        """Fold one record a row, as one group."""
        packed = []
        for key, value in rows.items():
            text = None if value is None else json.dumps(value).encode()
            now = int(time.time() * 1000)
            packed.append(
                Packed(
                    partition=0,
                    offset=self._offset,
                    time=now,
                    event_time=now,
                    key=key.encode(),
                    value=text,
                    unparsed=False,
                )
            )
            self._offset += 1
        self._reducer.fold(packed)

    def reopen(self) -> None:
        """Open again, as after a restart of the store."""
        self.store.close()
        self._claim()

    def go_live(self) -> None:
        self.store.go_live(self.build)
