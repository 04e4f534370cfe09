"""A store whose link breaks at planned moments."""

from __future__ import annotations

from typing import Any

from distributary.store.store_types import ChangeGroup


class Flaky:
    """A store whose link breaks before or after a write is applied."""

    def __init__(self, inner: Any, plan: list[str]) -> None:
        self._inner = inner
        self._plan = plan

    def write(self, group: ChangeGroup) -> int:
        step = self._plan.pop(0) if self._plan else "ok"
        if step == "before":
            raise ConnectionError("before the write")
        seq: int = self._inner.write(group)
        if step == "after":
            raise ConnectionError("after the write")
        return seq

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
