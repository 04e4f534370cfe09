"""The demo: its configuration, how it ends, its producer."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.support.clock import LIMIT

from distributary.demo import demo_run
from distributary.demo.demo_run import Options, configure
from distributary.demo.sportsbook import MATCHES, ODDS
from distributary.errors import ComponentFailed, ConfigError


def options(**more: object) -> Options:
    usual: dict[str, object] = {
        "config": None,
        "data_dir": None,
        "rate": 60.0,
        "matches": 12,
        "seconds": None,
    }
    return Options(**{**usual, "board": True, "json": False, **more})  # type: ignore[arg-type]


def test_packaged_configuration_has_both_views(tmp_path: Path) -> None:
    config = configure(None, tmp_path / "data")
    assert config.data_dir == tmp_path / "data"
    assert {feed.topic for feed in config.feeds} == {ODDS, MATCHES}
    assert all(feed.create for feed in config.feeds)
    odds, matches = config.view("odds"), config.view("matches")
    assert (odds.key, odds.where, odds.reduce) == ("market_id", "price > 1.0", "merge")
    assert (matches.key, matches.stale_after, matches.reduce) == ("match_id", 15.0, "merge")
    for view in config.views:
        # What the records are partitioned by, so that no view needs a second hop.
        assert config.feed(view.feed).partitioned_by == view.key


def test_configuration_without_the_views_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[feeds]]\nname = "odds"\ntopic = "t"\n[[views]]\nname = "odd"\nfeed = "odds"\n')
    with pytest.raises(ConfigError, match='unknown view "odds"'):
        configure(file, tmp_path)


def test_temporary_folder_is_removed_afterwards() -> None:
    with demo_run._folder(options()) as folder:
        (folder / "logs").mkdir()
    assert not folder.exists()


def test_given_folder_is_not_removed(tmp_path: Path) -> None:
    with demo_run._folder(options(data_dir=tmp_path)) as folder:
        assert folder == tmp_path
    assert tmp_path.exists()


async def _forever() -> None:
    await asyncio.Event().wait()


async def _fails() -> None:
    raise ComponentFailed("it broke")


async def _ends() -> None:
    pass


async def test_first_returns_whether_an_end_came_first() -> None:
    assert await demo_run._first(_forever(), _ends())
    assert not await demo_run._first(_ends(), _forever())


async def test_first_raises_an_error_and_cancels_the_others() -> None:
    ended = asyncio.Event()

    async def other() -> None:
        try:
            await _forever()
        finally:
            ended.set()

    with pytest.raises(ComponentFailed, match="it broke"):
        await demo_run._first(other(), _fails())
    assert ended.is_set()


async def test_demo_ends_after_its_seconds() -> None:
    async with asyncio.timeout(5 * LIMIT):
        await demo_run._timed(asyncio.Event(), options(seconds=0.01))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signal_ends_the_demo_in_order(number: signal.Signals) -> None:
    stop = asyncio.Event()
    with demo_run._signals(stop):
        os.kill(os.getpid(), number)
        async with asyncio.timeout(5 * LIMIT):
            await demo_run._timed(stop, options())
