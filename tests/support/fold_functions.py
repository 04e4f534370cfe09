"""Fold functions that tests name by import path."""

from __future__ import annotations

from typing import Any


def longest(row: dict[str, Any] | None, event: Any) -> dict[str, Any] | None:
    """Keep the longest text, and count all records."""
    if event.tombstone:
        return None
    seen = (row["seen"] if row else 0) + 1
    text = max(row["text"] if row else "", event["text"], key=len)
    return {"text": text, "seen": seen}


def add_action(row: dict[str, Any] | None, event: Any) -> dict[str, Any] | None:
    """Add an action to its row: a sum and a count, in which a lost or repeated record shows."""
    if event.tombstone:
        return None
    before = row or {"actions": 0, "sum": 0, "events": 0, "total": 0}
    return {**before, "actions": before["actions"] + 1, "sum": before["sum"] + event["n"]}


def add_event(row: dict[str, Any], event: Any) -> dict[str, Any] | None:
    """Add an event to every row; some raise, some remove a row by its key."""
    if event.get("remove") == event.key:
        return None
    if event.get("raise") == event.key:
        raise ValueError("as asked")
    return {**row, "events": row["events"] + 1, "total": row["total"] + event.get("n", 0)}
