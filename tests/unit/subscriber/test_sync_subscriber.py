from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from tests.support.clock import LIMIT
from tests.unit.subscriber.server import TinyPublisher

from distributary.errors import SubscribeError
from distributary.subscriber.sync_subscriber import subscribe_sync

T = TypeVar("T")


class Threaded:
    """A TinyPublisher on a thread, for tests without a loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.tiny = self.run(self._start())

    async def _start(self) -> TinyPublisher:
        return await TinyPublisher().start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10 * LIMIT)

    def stop(self) -> None:
        self.run(self.tiny.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def there() -> Iterator[Threaded]:
    threaded = Threaded()
    yield threaded
    threaded.stop()


def test_sync_subscriber_delivers_a_snapshot_then_changes(there: Threaded) -> None:
    there.tiny.rows = {"a": {"n": 1}}
    before = threading.active_count()
    with subscribe_sync("odds", url=there.tiny.url) as changes:
        assert changes.rows == {"a": {"n": 1}}
        assert next(changes).op == "snapshot"
        assert changes.next(timeout=0.01) is None
        there.run(there.tiny.write("b", {"n": 2}))
        there.run(there.tiny.write("c", {"n": 3}))
        assert next(changes).key == "b"
        assert set(changes.rows) == {"a", "b"}
        for change in changes:
            assert change.key == "c"
            break
    assert list(changes) == []
    assert threading.active_count() == before


def test_error_is_raised_in_the_caller(there: Threaded) -> None:
    with pytest.raises(SubscribeError), subscribe_sync("unknown", url=there.tiny.url):
        pytest.fail("entered")
