"""Fold functions that tests name by import path."""

from __future__ import annotations

from typing import Any


def longest(row: dict[str, Any] | None, event: Any) -> dict[str, Any] | None:
    """Keep the longest text and count all."""
    if event.tombstone:
        return None
    seen = (row["seen"] if row else 0) + 1
    text = max(row["text"] if row else "", event["text"], key=len)
    return {"text": text, "seen": seen}
