"""The arena on the real stack: what each player sees is what is near it, by a plain simulation."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from examples.arena import rules
from tests.support.clock import LIMIT
from tests.support.doc_blocks import ROOT
from tests.support.stack import Feeding
from tests.support.wait import eventually

from distributary.config import load
from distributary.reducers.reduce_rules import Event

FOLDER = ROOT / "examples" / "arena"
PLAYERS = ("ann", "bob", "cat", "dan", "eve")


class Simulation:
    """The arena without a stack: plain rows in a dict."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}

    def fold_action(self, player: str, action: dict[str, Any]) -> None:
        row = rules.fold_action(self.rows.get(player), _event(action, player))
        assert row is not None
        self.rows[player] = row

    def fold_event(self, event: dict[str, Any]) -> None:
        self.rows = {
            player: rules.fold_event(row, _event(event, player)) for player, row in self.rows.items()
        }

    def seen_by(self, player: str) -> dict[str, Any]:
        cells = re.findall(r"'([^']+)'", rules.nearby_filter(self.rows[player]))
        return {name: row for name, row in self.rows.items() if row["cell"] in cells}


def _event(fields: dict[str, Any], key: str) -> Event:
    made = Event(fields)
    made.key, made.tombstone = key, False
    return made


async def arena(feeding: Feeding) -> str:
    """The example's own view, on topics of this test."""
    config = load(FOLDER / "distributary.toml", env={})
    view, actions, events = config.view("players"), config.feed("actions"), config.feed("events")
    return await feeding.view(
        feed={
            "publish": actions.publish,
            "publish_key": actions.publish_key,
            "partitions": actions.partitions,
        },
        events={"publish": events.publish, "partitions": events.partitions},
        reduce=f"examples.arena.{view.reduce}",
        reduce_events=f"examples.arena.{view.reduce_events}",
        index=list(view.index),
        ttl=view.ttl,
    )


async def test_each_player_sees_exactly_what_is_nearby(
    feeding: Feeding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    play = importlib.import_module("play")
    view, url, plain = await arena(feeding), feeding.stack.addresses["websocket"], Simulation()
    worlds: dict[str, Any] = {}

    def show(player: str) -> Any:
        return lambda world: worlds.update({player: dict(world)})

    async def all_see() -> None:
        wanted = {player: plain.seen_by(player) for player in PLAYERS}

        async def seen() -> dict[str, Any]:
            return dict(worlds)

        await eventually(seen, lambda found: found == wanted, 30)

    def fold_event(*events: dict[str, Any]) -> None:
        feeding.stack.produce(feeding.events_topic, [(None, event) for event in events])
        for event in events:
            plain.fold_event(event)

    async with asyncio.TaskGroup() as tasks:
        looking = [
            tasks.create_task(play.follow_player(player, show(player), view, url)) for player in PLAYERS
        ]
        for i, player in enumerate(PLAYERS):
            action = {"do": "steer", "dx": (1, -1, 1, 0, 1)[i], "dy": (1, 1, -1, 1, 0)[i]}
            feeding.produce([(player, action)])
            plain.fold_action(player, action)
        await all_see()
        assert len({frozenset(world) for world in worlds.values()}) > 1, "a different world for each"
        cells = {player: row["cell"] for player, row in plain.rows.items()}
        fold_event(*({"kind": "tick", "n": n} for n in range(1, 10)))
        target = plain.rows["bob"]
        fold_event(*[{"kind": "blast", "x": target["x"], "y": target["y"], "by": "ann"}] * 3)
        await all_see()
        assert {player: row["cell"] for player, row in plain.rows.items()} != cells, "somebody moved on"
        assert plain.rows["bob"]["lost"] == 1
        for one in looking:
            one.cancel()
    assert await feeding.rows(view) == plain.rows


async def test_example_runs_as_its_readme_says(feeding: Feeding) -> None:
    """Bots act through a publisher, and a player's own process sees the clock go."""
    view, url = await arena(feeding), feeding.stack.addresses["websocket"]
    bots = ["--ticks", "5", "--pause", "0.05", "--players", "3", "--url", url]
    bots += ["--actions", f"f{feeding.topic}", "--events", f"e{feeding.topic}"]
    play = [sys.executable, "play.py", "ann", "--view", view, "--url", url]
    with subprocess.Popen(play, cwd=FOLDER, stdout=subprocess.PIPE, text=True, env=os.environ) as playing:
        assert playing.stdout is not None
        try:
            first = await asyncio.to_thread(playing.stdout.readline)
            assert first == "ann is not in the arena\n"
            acting = await asyncio.create_subprocess_exec(
                sys.executable, "bots.py", *bots, cwd=FOLDER, stdout=asyncio.subprocess.DEVNULL
            )
            assert await asyncio.wait_for(acting.wait(), 30 * LIMIT) == 0
            async with asyncio.timeout(30 * LIMIT):
                while not (line := await asyncio.to_thread(playing.stdout.readline)).startswith(
                    "tick 5: at "
                ):
                    assert line
        finally:
            playing.terminate()
    await eventually(lambda: feeding.rows(view), lambda rows: set(rows) == {"ann", "bob", "cat"}, 30)
