"""The rules of the arena as two pure functions: one folds an action, one folds an event into each player."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

Row = dict[str, Any]

SIZE, CELL = 64, 8
"""The arena is a square of SIZE by SIZE fields; players see cells of CELL by CELL."""
HEALTH, DAMAGE, REACH = 10, 4, 3


def fold_action(row: Row | None, action: Any) -> Row | None:
    """Fold a player's own action: ``steer`` (and by the first one, join) or ``leave``."""
    if action.tombstone or action["do"] == "leave":
        return None
    if action["do"] != "steer":
        raise ValueError(f"unknown action {action['do']!r}")
    dx, dy = action["dx"], action["dy"]
    if dx not in (-1, 0, 1) or dy not in (-1, 0, 1):
        raise ValueError("a player moves by at most one field")
    return {**(row or spawn(action.key)), "dx": dx, "dy": dy}


def fold_event(row: Row, event: Any) -> Row:
    """Fold an event into one player: a ``tick`` moves it, a ``blast`` damages it if it is near enough."""
    if event["kind"] == "tick":
        x, dx = _step(row["x"], row["dx"])
        y, dy = _step(row["y"], row["dy"])
        return _placed({**row, "x": x, "y": y, "dx": dx, "dy": dy, "tick": event["n"]})
    if event["kind"] == "blast":
        far = max(abs(row["x"] - event["x"]), abs(row["y"] - event["y"]))
        if far > REACH or row["player"] == event["by"]:
            return row
        if row["health"] > DAMAGE:
            return {**row, "health": row["health"] - DAMAGE}
        return {**spawn(row["player"]), "tick": row["tick"], "lost": row["lost"] + 1}
    raise ValueError(f"unknown event {event['kind']!r}")


def spawn(player: str) -> Row:
    """The start of a player: anywhere, but always the same, since a fold must be deterministic."""
    hashed = crc32(player.encode())
    row = {"player": player, "x": hashed % SIZE, "y": hashed // SIZE % SIZE, "dx": 0, "dy": 0}
    return _placed({**row, "health": HEALTH, "lost": 0, "tick": 0})


def nearby_filter(row: Mapping[str, Any]) -> str:
    """The filter for what a player sees: its own cell and the eight around it."""
    column, line = int(row["x"]) // CELL, int(row["y"]) // CELL
    cells = [f"'{c}-{n}'" for c in range(column - 1, column + 2) for n in range(line - 1, line + 2)]
    return f"cell in ({', '.join(cells)})"


def _step(at: int, by: int) -> tuple[int, int]:
    """One field further, or back from the wall."""
    return (at + by, by) if 0 <= at + by < SIZE else (at - by, -by)


def _placed(row: Row) -> Row:
    return {**row, "cell": f"{row['x'] // CELL}-{row['y'] // CELL}"}
