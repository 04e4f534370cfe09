"""The end of subscriptions whose time is over.

Publishers renew what they serve; one that nobody ever connected for is known to no publisher.
"""

from __future__ import annotations

import asyncio
import logging

from redis.exceptions import RedisError

from distributary.control.context import Context
from distributary.control.subscriptions import announce
from distributary.model.command import Command

log = logging.getLogger(__name__)


async def sweep_once(context: Context) -> int:
    """Remove all lapsed subscriptions; return how many."""
    count = 0
    for view in await context.reader.views():
        for id in await context.reader.sweep(view):
            await announce(context, Command("end", view, id))
            count += 1
    return count


async def sweep_forever(context: Context, every: float) -> None:
    """Sweep until cancelled; a store that does not answer is tried again the next time."""
    while True:
        await asyncio.sleep(every)
        try:
            await sweep_once(context)
        except (RedisError, OSError) as error:
            log.warning("subscriptions were not swept: %s", error)
