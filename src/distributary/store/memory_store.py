"""The reference implementation of the contract: a store in plain Python, for tests and reference pages."""

from __future__ import annotations

import time
from collections.abc import Callable

from distributary.store.memory_reader import MemoryReader
from distributary.store.memory_state import MemoryState
from distributary.store.memory_writer import MemoryWriter


class MemoryStore(MemoryState):
    """One store with two faces: ``writer`` for reducers, ``reader`` for publishers."""

    def __init__(self, *, log_length: int = 100_000, clock: Callable[[], float] = time.time) -> None:
        super().__init__(log_length=log_length, clock=clock)
        self.writer = MemoryWriter(self)
        self.reader = MemoryReader(self)
