"""The end of subscriptions whose time is over.

Publishers renew what they serve; one that nobody ever connected for is known to no publisher.
"""

from __future__ import annotations

import asyncio
import logging

from redis.exceptions import RedisError

from distributary.control.app_context import Context
from distributary.control.subscription_routes import announce
from distributary.model.command import Command
from distributary.store.subscription_sweep import SWEEP_SECONDS, sweep

log = logging.getLogger(__name__)

NOBODY = ""


async def sweep_once(context: Context) -> int:
    """Remove all lapsed subscriptions; return how many."""

    async def ended(view: str, ids: list[str]) -> None:
        await asyncio.gather(*(announce(context, Command("end", view, id)) for id in ids))

    return await sweep(context.reader, await context.reader.views(), SWEEP_SECONDS, ended)


async def sweep_forever(context: Context) -> None:
    """Sweep until cancelled; a store that does not answer is tried again the next time."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        try:
            await sweep_once(context)
            # With several servers this writes to each the revocations that it missed while it was down.
            await context.reader.revoked([NOBODY])
        except (RedisError, OSError) as error:
            log.warning("subscriptions were not swept: %s", error)
