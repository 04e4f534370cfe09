"""A count that is not the top of the log is a torn write, after which the build is rebuilt (R13)."""

from __future__ import annotations

import pytest
import redis
from tests.integration.conftest import Database
from tests.support.store_groups import change, group

from distributary.model.build import Build
from distributary.model.position import Mark
from distributary.store.errors import Suspect
from distributary.store.redis_keys import BuildKeys
from distributary.store.redis_writer import RedisWriter

BUILD = Build("v", "b")


def test_build_is_suspect_when_its_log_does_not_end_at_the_count(database: Database) -> None:
    writer = RedisWriter(database.url)
    writer.define("v", "b", "{}")
    claimed = writer.claim(BUILD, "t", 1)
    opened = writer.open(BUILD, 0, claimed.claim)
    for number in (1, 2):
        follows = Mark(number - 1) if number > 1 else None
        rows = [change("a", {"n": number})]
        writer.write(
            group(BUILD, opened, claimed.claim.generation, number, number, rows, follows=follows, new=False)
        )
    writer.open(BUILD, 0, claimed.claim)
    admin, names = redis.Redis.from_url(database.url), BuildKeys(BUILD)
    admin.xadd(names.log, {"n": "1", "b": b""}, id="3-0")
    with pytest.raises(Suspect, match="the log ends at 3-0, the count at 2"):
        writer.open(BUILD, 0, claimed.claim)
    admin.xdel(names.log, "3-0", "2-0")
    with pytest.raises(Suspect, match="the log ends at 1-0, the count at 2"):
        writer.open(BUILD, 0, claimed.claim)
    # It is rebuilt from the first record, under another epoch.
    writer.rebuild(BUILD, claimed.claim.generation, "the store's keys contradict each other")
    claimed = writer.claim(BUILD, "t", 1)
    again = writer.open(BUILD, 0, claimed.claim)
    assert again.mark is None
    assert again.epoch != opened.epoch
