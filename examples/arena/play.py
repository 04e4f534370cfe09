"""Follows one player, and prints the players near it.

Run it beside the stack: ``python play.py ann``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import rules

import distributary

VisiblePlayers = Mapping[str, Mapping[str, Any]]


async def follow_player(
    player: str, show: Callable[[VisiblePlayers], None], view: str = "players", url: str | None = None
) -> None:
    """Show the rows that a player sees, whenever they change; none while it is not in the arena.

    Two live queries do it: one for the player's own row, and one for the cells around it, which is
    replaced whenever the player enters another cell.
    """

    async def follow(where: str) -> None:
        async with distributary.subscribe(view, where, url=url) as near:
            async for _ in near:
                show(near.rows)

    cell, following = None, None
    async with asyncio.TaskGroup() as tasks, distributary.subscribe(view, keys=[player], url=url) as me:
        async for _ in me:
            row = me.rows.get(player)
            if row is not None and row["cell"] == cell:
                continue
            if following is not None:
                following.cancel()
            cell, following = None, None
            if row is None:
                show({})
            else:
                cell, following = row["cell"], tasks.create_task(follow(rules.nearby_filter(row)))


def main(player: str, view: str, url: str | None) -> None:
    """Print the visible players until Ctrl-C."""

    def show(visible: VisiblePlayers) -> None:
        me = visible.get(player)
        if me is None:
            print(f"{player} is not in the arena", flush=True)
            return
        print(f"tick {me['tick']}: at {me['x']},{me['y']}, health {me['health']}", flush=True)
        for name, row in sorted(visible.items()):
            if name != player:
                print(f"   {name} at {row['x']},{row['y']}", flush=True)

    asyncio.run(follow_player(player, show, view, url))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("player")
    parser.add_argument("--view", default="players")
    parser.add_argument("--url", default=None, help="a publisher; default: the stack of this folder")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        main(given.player, given.view, given.url)
