"""Clients for a store: one server, or several, where each view is stored on one of them."""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import RedisError

from distributary.config.secrets import mask_text
from distributary.model.build import Build
from distributary.model.sharding import shard_of
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter
from distributary.store.sharded_reader import ShardedReader, latest
from distributary.store.sharded_writer import ShardedWriter
from distributary.store.store_types import ViewInfo


def open_writer(addresses: Sequence[str], *, log_length: int = 100_000) -> RedisWriter | ShardedWriter:
    """Create the blocking client of a store."""
    if len(addresses) == 1:
        return RedisWriter(addresses[0], log_length=log_length)
    return ShardedWriter(addresses, log_length=log_length)


def open_reader(addresses: Sequence[str]) -> RedisReader | ShardedReader:
    """Create the asyncio client of a store."""
    return RedisReader(addresses[0]) if len(addresses) == 1 else ShardedReader(addresses)


def move_views(addresses: Sequence[str]) -> list[str]:
    """Move views after a change of the list of servers; return a message for each thing that was done.

    A view that belongs on another server now is defined there, to be built from Kafka, and deleted from where
    it was. Revocations are copied to every server. Servers that do not respond are left for the next time.
    Called by the driver before it runs the views; it may be repeated at any time.
    """
    # 1. Read the views of every server that responds.
    shards = {address: RedisWriter(address) for address in addresses}
    done: list[str] = []
    try:
        views = {}
        for address, shard in shards.items():
            try:
                views[address] = shard.views()
            except (RedisError, OSError) as error:
                done.append(f"the store at {mask_text(address)} does not respond ({error})")
        there = {address: shards[address] for address in views}
        # 2. Move those that belong elsewhere.
        for address, found in views.items():
            for name, info in found.items():
                target = shard_of(name, addresses)
                if target != address and target in there:
                    _move(name, info, there[address], there[target], known=name in views[target])
                    done.append(f"view {name}: moved to {mask_text(target)}, and is rebuilt there")
        # 3. Copy revocations.
        _share_revocations(list(there.values()))
    except (RedisError, OSError) as error:
        done.append(f"a server stopped responding ({error}): the remaining views are moved at the next start")
    finally:
        for shard in shards.values():
            shard.close()
    return done


def _move(name: str, info: ViewInfo, old: RedisWriter, new: RedisWriter, *, known: bool) -> None:
    build = Build(name, info.next or info.live)
    was = old.build(build)
    if was is not None:
        if not known:
            new.define(name, build.id, was.definition)
        found = new.build(build)
        if found is not None and found.generation < was.generation:
            # The re-keying query numbers its attempts by it, and its records are still in the internal topic.
            new.update_build(build, gen=str(was.generation), rekey="1" if was.rekey else "")
    old.drop_view(name)


def _share_revocations(shards: Sequence[RedisWriter]) -> None:
    found = [shard.revocations() for shard in shards]
    known = latest(found)
    for shard, one in zip(shards, found, strict=True):
        missing = {user: at for user, at in known.items() if one.get(user, 0) < at}
        if missing:
            shard.revoke(missing)
