"""A row as filters see it: a field is decoded at its first use."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from distributary.model.filter.normal_form import Kind
from distributary.model.filter.scalars import Scalar, scalar
from distributary.model.filter.syntax_tree import Path
from distributary.model.filter.times import as_time

Slot = str | tuple[object, ...]
"""The key of a value: its name, or its path if nested; times have the prefix ``()``, row keys are ``KEY``."""

KEY: Slot = ()

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NONE: dict[str, msgspec.Raw] = {}


def slot_of(path: Path, kind: Kind = "text") -> Slot:
    """Return the slot of a field, read as this kind."""
    if kind in ("moment", "now"):
        return ((), *path)
    return path[0] if len(path) == 1 else path


class RowView(dict[Slot, Scalar]):
    """The decoded fields of one row, filled as they are looked up; ``now_ms`` is the time of evaluation.

    ``near`` is another row that may share fields with it, and has decoded them already.
    """

    __slots__ = ("_fields", "_near", "_objects", "now_ms")

    def __init__(
        self,
        fields: Mapping[str, msgspec.Raw],
        now_ms: int = 0,
        key: str | None = None,
        near: RowView | None = None,
    ) -> None:
        self._fields = fields
        self._near = near
        self._objects: dict[Path, Mapping[str, msgspec.Raw]] | None = None
        self.now_ms = now_ms
        self[KEY] = key

    def reset(self, fields: Mapping[str, msgspec.Raw]) -> None:
        """Replace the fields by those of another row, without a key."""
        self.clear()
        self._fields = fields
        self._objects = None

    def __missing__(self, slot: Slot) -> Scalar:
        value: Scalar
        if isinstance(slot, str):
            raw = self._fields.get(slot)
            near = self._near
            if raw is None:
                value = None
            elif near is not None and near._fields.get(slot) is raw:
                value = near[slot]
            else:
                value = scalar(raw)
        elif slot[0] == ():
            value = as_time(self[slot_of(slot[1:])])  # type: ignore[arg-type]
        else:
            path: Path = slot  # type: ignore[assignment]
            raw = self._object(path[:-1]).get(path[-1])
            value = None if raw is None else scalar(raw)
        self[slot] = value
        return value

    def _object(self, path: Path) -> Mapping[str, msgspec.Raw]:
        """Return the fields of a nested object; empty if it is not an object."""
        if self._objects is None:
            self._objects = {}
        fields = self._fields
        for end in range(1, len(path) + 1):
            inner = self._objects.get(path[:end])
            if inner is None:
                raw = fields.get(path[end - 1])
                inner = _fields(raw) if raw is not None and bytes(raw)[:1] == b"{" else _NONE
                self._objects[path[:end]] = inner
            fields = inner
        return fields
