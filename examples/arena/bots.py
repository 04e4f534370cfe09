"""Players that walk at random, and the clock that moves the arena, through one WebSocket.

Run it beside the stack: ``python bots.py``, or ``python bots.py --players 20 --ticks 100``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
from typing import Any

from centrifuge import Client, ClientEventHandler

from distributary.subscriber.connection_settings import find_publishers

NAMES = ("ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal")


async def run(client: Client, args: argparse.Namespace) -> None:
    """Send ticks; at each one a player turns, and at every fifth something explodes."""
    dice = random.Random(args.seed)
    players = [NAMES[i] if i < len(NAMES) else f"bot{i}" for i in range(args.players)]

    async def steer(player: str) -> None:
        turn = {"do": "steer", "dx": dice.choice((-1, 0, 1)), "dy": dice.choice((-1, 0, 1))}
        await client.publish(f"feed:{args.actions}", {"player": player, **turn})

    for player in players:
        await steer(player)
    n = 0
    while not args.ticks or n < args.ticks:
        n += 1
        await asyncio.sleep(args.pause)
        await steer(dice.choice(players))
        if n % 5 == 0:
            where: dict[str, Any] = {"x": dice.randrange(64), "y": dice.randrange(64)}
            await client.publish(
                f"feed:{args.events}", {"kind": "blast", "by": dice.choice(players), **where}
            )
        await client.publish(f"feed:{args.events}", {"kind": "tick", "n": n})
        print(f"tick {n}", flush=True)


async def main(args: argparse.Namespace) -> None:
    """Connect and run."""
    client = Client((await find_publishers(args.url))[0], events=ClientEventHandler())
    await client.connect()
    try:
        await run(client, args)
    finally:
        await client.disconnect()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--players", type=int, default=8)
    parser.add_argument("--ticks", type=int, default=0, help="stop after this many (0: never)")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two ticks")
    parser.add_argument("--seed", type=int, default=None, help="to repeat a game")
    parser.add_argument("--actions", default="actions", help="the feed of actions")
    parser.add_argument("--events", default="events", help="the feed of events")
    parser.add_argument("--url", default=None, help="a publisher; default: the stack of this folder")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(parser.parse_args()))
