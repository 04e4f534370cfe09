"""Short ways to build groups for a store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from distributary.model.build import Build
from distributary.model.change import Change, encode_changes
from distributary.model.position import Mark
from distributary.store.store_types import ChangeGroup, Opened


def change(
    key: str, row: Mapping[str, Any] | None, *, adds: Sequence[int] = (), removes: Sequence[int] = ()
) -> Change:
    """A change to a whole row, or its removal."""
    text = b"" if row is None else json.dumps(row, separators=(",", ":")).encode()
    return Change(key=key, time=1, fields=b"", row=text, adds=list(adds), changes=[], removes=list(removes))


def group(
    build: Build,
    opened: Opened,
    generation: int,
    number: int,
    mark: int,
    changes: Sequence[Change] = (),
    *,
    partition: int = 0,
    follows: Mark | None = None,
    version: int | None = None,
    expires: int = 0,
    new: bool = True,
    fingerprint: str = "",
) -> ChangeGroup:
    """A group as a reducer would send it."""
    rows: dict[str, tuple[int, bytes | None, int, bool]] = {}
    queries: dict[int, int] = {}
    for index, one in enumerate(changes):
        rows[one.key] = (index, one.row or None, expires, new)
        for query in (*one.adds, *one.changes, *one.removes):
            queries[query] = index
    return ChangeGroup(
        build=build,
        partition=partition,
        epoch=opened.epoch,
        generation=generation,
        token=opened.token,
        number=number,
        version=opened.version if version is None else version,
        follows=follows,
        mark=Mark(mark),
        partition_state="",
        fingerprint=fingerprint,
        count=len(changes),
        blob=encode_changes(changes) if changes else b"",
        rows=rows,
        queries=queries,
        records=len(changes),
    )
