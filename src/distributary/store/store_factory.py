"""The store at some addresses: one server, or several of which each view has one."""

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
    """Make the blocking client of a store."""
    if len(addresses) == 1:
        return RedisWriter(addresses[0], log_length=log_length)
    return ShardedWriter(addresses, log_length=log_length)


def open_reader(addresses: Sequence[str]) -> RedisReader | ShardedReader:
    """Make the asyncio client of a store."""
    return RedisReader(addresses[0]) if len(addresses) == 1 else ShardedReader(addresses)


def move_views(addresses: Sequence[str]) -> list[str]:
    """Bring what is stored in step with the list of servers; say what was done, a line each.

    A view that the list now places elsewhere is defined there, to be built from Kafka, and cleared where it
    was. Revocations are brought to every server. Servers that do not answer are left for the next time.
    For the one who runs the views, before it runs them; it may be done again at any time.
    """
    shards = {address: RedisWriter(address) for address in addresses}
    done: list[str] = []
    try:
        views = {}
        for address, shard in shards.items():
            try:
                views[address] = shard.views()
            except (RedisError, OSError) as error:
                done.append(f"the store at {mask_text(address)} does not answer ({error})")
        there = {address: shards[address] for address in views}
        for address, found in views.items():
            for name, info in found.items():
                place = shard_of(name, addresses)
                if place != address and place in there:
                    _move(name, info, there[address], there[place], known=name in views[place])
                    done.append(f"view {name}: lives on {mask_text(place)} now, and is built there")
        _share_revocations(list(there.values()))
    except (RedisError, OSError) as error:
        done.append(f"a server stopped answering ({error}): what is left to move waits for the next start")
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
            # The re-keying query's attempts go by it, and what it wrote is still in the internal topic.
            new.update_build(build, gen=str(was.generation), rekey="1" if was.rekey else "")
    old.drop_view(name)


def _share_revocations(shards: Sequence[RedisWriter]) -> None:
    found = [shard.revocations() for shard in shards]
    known = latest(found)
    for shard, one in zip(shards, found, strict=True):
        missing = {user: moment for user, moment in known.items() if one.get(user, 0) < moment}
        if missing:
            shard.revoke(missing)
