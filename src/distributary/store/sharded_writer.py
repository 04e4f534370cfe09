"""Several servers as one store, for writers: each view is stored on the server that its name selects.

A call about a view goes to its server alone. Other calls go to all servers, and one that does not respond is
an error: a caller that can continue with the others has a writer for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distributary.model.build import Build
from distributary.model.position import Fingerprint
from distributary.model.sharding import shard_of
from distributary.store.errors import Behind
from distributary.store.redis_writer import RedisWriter
from distributary.store.store_types import (
    BuildInfo,
    ChangeGroup,
    Claim,
    Claimed,
    Opened,
    ProcessHeartbeat,
    QueryRow,
    Row,
    ViewInfo,
    latest_heartbeats,
)


class ShardedWriter:
    """Implements ``WriterStore`` on several servers."""

    def __init__(self, addresses: Sequence[str], *, log_length: int = 100_000) -> None:
        self._addresses = tuple(addresses)
        self._shards = {address: RedisWriter(address, log_length=log_length) for address in addresses}

    def close(self) -> None:
        """Close all connections."""
        for shard in self._shards.values():
            shard.close()

    def _of(self, view: str) -> RedisWriter:
        return self._shards[shard_of(view, self._addresses)]

    def define(self, view: str, build: str, definition: str) -> None:
        self._of(view).define(view, build, definition)

    def claim(self, build: Build, topic: str, partitions: int, driver: str = "") -> Claimed:
        return self._of(build.view).claim(build, topic, partitions, driver)

    def open(self, build: Build, partition: int, claim: Claim) -> Opened:
        return self._of(build.view).open(build, partition, claim)

    def assign(self, build: Build, claim: Claim, partitions: Sequence[int]) -> None:
        self._of(build.view).assign(build, claim, partitions)

    def assigned(self, build: Build, claim: Claim) -> Sequence[int]:
        return self._of(build.view).assigned(build, claim)

    def write(self, group: ChangeGroup) -> int:
        return self._of(group.build.view).write(group)

    def advance(
        self,
        build: Build,
        claim: Claim,
        ends: Mapping[int, int],
        *,
        rekey: bool = False,
        last: Mapping[int, Fingerprint] | None = None,
        copied: Mapping[int, Fingerprint] | None = None,
    ) -> bool:
        return self._of(build.view).advance(build, claim, ends, rekey=rekey, last=last, copied=copied)

    def rows(self, build: Build, keys: Sequence[str]) -> list[Row | None]:
        return self._of(build.view).rows(build, keys)

    def scan(self, build: Build, cursor: int, count: int) -> tuple[int, list[tuple[str, Row]]]:
        return self._of(build.view).scan(build, cursor, count)

    def save_checkpoint(self, build: Build, every_ms: int, keep: int) -> None:
        self._of(build.view).save_checkpoint(build, every_ms, keep)

    def now(self) -> int:
        return max(shard.now() for shard in self._shards.values())

    def expired(self, build: Build, partition: int, limit: int) -> tuple[int, list[str]]:
        return self._of(build.view).expired(build, partition, limit)

    def registry(self, view: str) -> tuple[int, list[QueryRow]]:
        return self._of(view).registry(view)

    def registry_diff(self, view: str, version: int) -> Behind | None:
        return self._of(view).registry_diff(view, version)

    def go_live(self, build: Build, generation: int | None = None, *, fence: bool = False) -> str:
        return self._of(build.view).go_live(build, generation, fence=fence)

    def rebuild(self, build: Build, generation: int, reason: str = "") -> None:
        self._of(build.view).rebuild(build, generation, reason)

    def drop(self, build: Build) -> bool:
        return self._of(build.view).drop(build)

    def update_build(self, build: Build, **fields: str) -> None:
        self._of(build.view).update_build(build, **fields)

    def mark_source_active(self, view: str) -> None:
        self._of(view).mark_source_active(view)

    def drop_view(self, view: str) -> None:
        self._of(view).drop_view(view)

    def heartbeat(self, component: str, id: str, stats: str) -> None:
        for shard in self._shards.values():
            shard.heartbeat(component, id, stats)

    def heartbeats(self) -> list[ProcessHeartbeat]:
        return latest_heartbeats(one for shard in self._shards.values() for one in shard.heartbeats())

    def check(self) -> None:
        """Raise StoreUnsuitable if a server would evict rows (R6)."""
        for shard in self._shards.values():
            shard.check()

    def flushed(self) -> bool:
        return all(shard.flushed() for shard in self._shards.values())

    def views(self) -> dict[str, ViewInfo]:
        """Read all views, each from its own server; leftovers of another list of servers are ignored."""
        return {
            name: info
            for shard in self._shards.values()
            for name, info in shard.views().items()
            if self._of(name) is shard
        }

    def build(self, build: Build) -> BuildInfo | None:
        return self._of(build.view).build(build)
