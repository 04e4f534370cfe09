"""A piece of a query's history, against the whole of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fake_view import VIEW, FakeView

from distributary.model.position import Position
from distributary.model.query import Query
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.hub import history
from distributary.publisher.hub.history import History
from distributary.store.build_scan import StaleRead

QUERY = Query.parse(VIEW, "s = 'f'")


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FIRST_STEP", 2)
    monkeypatch.setattr("distributary.store.build_scan.LOG_CHANGES", 3)


async def ask(fake_view: FakeView, since: Position | None, limit: int, reverse: bool) -> History:
    read = history.read_backwards if reverse else history.read_forwards
    return await read(fake_view.reader, fake_view.build, QUERY, since, limit=limit)


async def registered(fake_view: FakeView) -> None:
    await fake_view.reader.register(
        VIEW, query_id=QUERY.id, text=QUERY.text, subscription="G", ttl_ms=60_000, begun=True
    )


def row(key: str, s: str) -> tuple[str, dict[str, object] | None]:
    return key, {"s": s}


def numbers(found: History) -> list[int]:
    return [number for number, _ in found[2]]


@settings(max_examples=150, deadline=None)
@given(
    before=st.integers(0, 5),
    groups=st.lists(st.lists(st.booleans(), min_size=1, max_size=4), max_size=12),
    keep=st.integers(1, 60),
    since=st.none() | st.integers(0, 50),
    limit=st.integers(0, 12),
    reverse=st.booleans(),
)
def test_history_equals_brute_force(
    before: int, groups: list[list[bool]], keep: int, since: int | None, limit: int, reverse: bool
) -> None:
    async def run() -> None:
        fake_view = FakeView(log_length=keep)
        for n in range(before):
            fake_view.put((f"old{n}", {"s": "f"}))
        await registered(fake_view)
        mine: list[int] = []
        for n, group in enumerate(groups):
            first = fake_view.seq + 1
            fake_view.put(*(row(f"k{n}.{i}", "f" if hit else "g") for i, hit in enumerate(group)))
            mine += [first + i for i, hit in enumerate(group) if hit]
        state = await fake_view.reader.query_state(VIEW, QUERY.id)
        assert state is not None
        oldest = max(state.since, state.floor)
        materialized = [n for n in mine if n > oldest]
        position = Position(fake_view.epoch, since) if since is not None else None
        if reverse:
            refused = since is not None and since > fake_view.seq + 1
            expected = [n for n in reversed(materialized) if since is None or n < since]
        else:
            quiet = since is not None and since >= state.since and not [n for n in mine if n > since]
            refused = since is not None and (since > fake_view.seq or (since < oldest and not quiet))
            expected = [n for n in materialized if since is None or n > since]
        if refused:
            with pytest.raises(Refused) as why:
                await ask(fake_view, position, limit, reverse)
            assert why.value.refusal is codes.UNRECOVERABLE
            return
        found = await ask(fake_view, position, limit, reverse)
        assert found[:2] == (fake_view.epoch, fake_view.seq)
        assert numbers(found) == expected[:limit]

    asyncio.run(run())


@pytest.mark.parametrize("reverse", [False, True])
async def test_position_of_another_epoch_is_refused(reverse: bool) -> None:
    fake_view = FakeView()
    await registered(fake_view)
    fake_view.put(("a", {"s": "f"}))
    with pytest.raises(Refused) as why:
        await ask(fake_view, Position("other", 1), 5, reverse)
    assert why.value.refusal is codes.UNRECOVERABLE


@pytest.mark.parametrize("reverse", [False, True])
async def test_history_has_the_published_data(reverse: bool) -> None:
    fake_view = FakeView()
    await registered(fake_view)
    fake_view.time = 5
    fake_view.put(("a", {"s": "f"}), ("a", {"s": "g"}))
    _, _, pubs = await ask(fake_view, None, 5, reverse)
    message: list[Any] = [json.loads(data) for _, data in (reversed(pubs) if reverse else pubs)]
    assert message == [
        {"op": "add", "key": "a", "time": 5, "row": {"s": "f"}},
        {"op": "remove", "key": "a", "time": 5},
    ]


class Cutting:
    """A reader whose log is cut, or grows, after some reads."""

    def __init__(self, fake_view: FakeView, after: int, act: Any) -> None:
        self._reader: Any = fake_view.reader
        self._left = after
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def log(self, *args: Any) -> Any:
        if self._left == 0:
            self._act()
        self._left -= 1
        return await self._reader.log(*args)


async def cut_while_reading(fake_view: FakeView, reads: int, *, reverse: bool) -> History:
    await registered(fake_view)
    for n in range(12):
        fake_view.put((f"k{n}", {"s": "f"}))
    reader: Any = Cutting(fake_view, reads, lambda: fake_view.put(*(row(f"x{n}", "g") for n in range(6))))
    read = history.read_backwards if reverse else history.read_forwards
    return await read(reader, fake_view.build, QUERY, None, limit=100)


async def test_history_backwards_ends_where_the_log_was_cut() -> None:
    fake_view = FakeView(log_length=12)
    found = await cut_while_reading(fake_view, 2, reverse=True)
    state = await fake_view.reader.query_state(VIEW, QUERY.id)
    assert state is not None
    assert 0 < state.floor < 7
    assert numbers(found) == list(range(12, state.floor, -1))
    assert found[1] == 12


async def test_history_forwards_is_stale_when_the_log_was_cut() -> None:
    with pytest.raises(StaleRead):
        await cut_while_reading(FakeView(log_length=12), 1, reverse=False)


async def test_changes_during_the_read_are_not_included() -> None:
    fake_view = FakeView()
    await registered(fake_view)
    fake_view.put(("a", {"s": "f"}))
    reader: Any = Cutting(fake_view, 0, lambda: fake_view.put(("b", {"s": "f"})))
    assert numbers(await history.read_forwards(reader, fake_view.build, QUERY, None, limit=100)) == [1]


async def test_history_of_a_removed_query_is_stale() -> None:
    with pytest.raises(StaleRead):
        await ask(FakeView(), None, 5, False)
