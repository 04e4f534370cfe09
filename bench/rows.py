"""How fast the first rows of a query come: to a subscriber, and by REST, out of a view of many rows.

A store, a publisher and a control API run as they are shipped; the rows are written as a reducer writes them,
without Spark. Every query is a new one, so that nothing is known of it beforehand, and each figure is the
worst kind's median.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from bench import child, stacks
from bench.child import BenchError
from bench.fanout import _reducer
from bench.figures import Say
from bench.spec import Rows
from distributary.config.embedded_defaults import new_password
from distributary.reducers.record_codec import Packed
from distributary.setup import store_server
from distributary.stack.ports import Ports
from distributary.store.embedded_server import EmbeddedServer
from distributary.store.redis_writer import RedisWriter

GROUP = 500
"""Rows of one write."""
MATCH = 50
"""Rows that have one value of the indexed field."""
FORMATS = ("application/json", "application/x-ndjson", "text/csv")
ARROW = "application/vnd.apache.arrow.stream"

Took = Callable[[str], Awaitable[float]]
"""Asks a query and gives the milliseconds until all of the answer was there."""


async def measure(spec: Rows, folder: Path, say: Say) -> dict[str, Any]:
    """Ask new queries one after the other, subscribing and by REST."""
    folder.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as exits:
        say(f"starting, and writing {spec.rows:,} rows")
        websocket, rest = await _start(exits, spec, folder)
        http = await exits.enter_async_context(aiohttp.ClientSession())
        register = await exits.enter_async_context(_subscribing(http, websocket))
        by_key = await _median(register, _keys(spec), spec.rounds)
        by_index = await _median(register, _matches(), spec.rounds)
        say(f"first state by key {by_key:.1f} ms, by index {by_index:.1f} ms")
        state = {name: await _median(register, kind, spec.rounds) for name, kind in _filters().items()}
        say("first state by " + _shown(state))
        rows = {}
        for format in FORMATS:
            read = _reading(http, rest, format)
            for name, kind in _filters(format).items():
                rows[f"{format} {name}"] = await _median(read, kind, spec.rounds)
        say("rows by " + _shown(rows))
        read = _reading(http, rest, ARROW)
        arrow = {name: await _median(read, kind, spec.rounds) for name, kind in _filters(ARROW).items()}
        say("Arrow by " + _shown(arrow))
        indexed = await _median(_reading(http, rest, FORMATS[0]), _matches(1), spec.rounds)
    return {
        "register_ms_key": round(by_key, 2),
        "register_ms_index": round(by_index, 2),
        "register_ms_any": round(max(state.values()), 1),
        "rest_rows_ms": round(max(rows.values()), 1),
        "rest_arrow_ms": round(max(arrow.values()), 1),
        "rest_index_ms": round(indexed, 2),
        "rows_count": spec.rows,
    }


def _shown(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {took:.0f} ms" for name, took in found.items())


async def _median(ask: Took, queries: Iterator[str], rounds: int) -> float:
    await ask(next(queries))  # what is made only once is not counted
    return statistics.median([await ask(next(queries)) for _ in range(rounds)])


def _keys(spec: Rows) -> Iterator[str]:
    for n in range(10_000):
        yield "keys=" + ",".join(f"row {(n * 977 + i * 31) % spec.rows}" for i in range(100))


def _matches(first: int = 0) -> Iterator[str]:
    for n in range(first, 10_000, 2):
        yield f"where=match_id = 'm{n}'"


def _filters(format: str = "") -> dict[str, Iterator[str]]:
    """Filters of several kinds, each time new: nearly all rows, some, a nested field, a pattern."""
    salt = (*FORMATS, ARROW).index(format) / 10 if format else 0.5
    steps = [n / 1000 + salt / 1000 for n in range(1, 1000)]
    return {
        "nearly all": (f"where=price > {step:.5f}" for step in steps),
        "a tenth": (f"where=price between {1 + step:.5f} and {1.4 + step:.5f}" for step in steps),
        "nested": (f"where=score.home >= 5 or score.away < {-step:.5f}" for step in steps),
        "a pattern": (f"where=name like '%7%' and not price = {step:.5f}" for step in steps),
    }


async def _start(exits: AsyncExitStack, spec: Rows, folder: Path) -> tuple[str, str]:
    """Start the parts and write the rows; give the addresses of the publisher and of the control API."""
    ports = Ports(folder / "ports.json")
    exits.callback(ports.close)
    found = store_server.find()
    server = EmbeddedServer(
        folder / "store", found.path, found.kind, ports.choose("store", 0), new_password()
    )
    server.prepare()
    store = await exits.enter_async_context(child.run("store", server.command(), folder, quiet=True))
    async with asyncio.timeout(30):
        await server.wait_ready(store.pid, restarted=False)
    config = stacks.configure(folder, 1, view='index = ["match_id"]')
    writer = RedisWriter(server.url)
    exits.callback(writer.close)
    await asyncio.to_thread(_fill, _reducer(config, writer), spec.rows)
    env = {
        "DISTRIBUTARY_CONFIG": str(config.path),
        "DISTRIBUTARY_STORE_URL": server.url,
        "DISTRIBUTARY_PUBLISHER_PORT": str(ports.choose("publisher", 0)),
        "DISTRIBUTARY_PUBLISHER_HTTP_PORT": str(ports.choose("publisher-http", 0)),
        "DISTRIBUTARY_CONTROL_PORT": str(ports.choose("control", 0)),
    }
    said = []
    for name in ("publisher", "control"):
        argv = child.module(f"distributary.{name}")
        part = await exits.enter_async_context(child.run(name, argv, folder, env))
        said.append((await part.line(30))["addresses"])
    return said[0]["websocket"], said[1]["http"]


def _fill(reducer: Any, rows: int) -> None:
    for at in range(0, rows, GROUP):
        some = [
            Packed(
                partition=0,
                offset=n,
                time=1,
                event_time=1,
                key=f"row {n}".encode(),
                value=_value(n),
                unparsed=False,
            )
            for n in range(at, at + GROUP)
        ]
        if reducer.fold(some) != GROUP:
            raise BenchError("a record made no change")


def _value(n: int) -> bytes:
    row = {
        "match_id": f"m{n // MATCH}",
        "name": f"Team {n % 613} v Team {n * 7 % 613}",
        "league": f"league {n % 40}",
        "price": 1 + n % 400 / 100,
        "score": {"home": n % 7, "away": n % 5},
        "status": ("open", "suspended", "settled")[n % 3],
        "live": n % 2 == 0,
        "updated": 1_767_225_600_000 + n,
    }
    return json.dumps(row).encode()


@asynccontextmanager
async def _subscribing(http: aiohttp.ClientSession, url: str) -> AsyncIterator[Took]:
    """Subscribe over one connection; a query is left again before the next."""
    async with http.ws_connect(url, max_msg_size=0) as socket:
        await socket.send_str('{"id":1,"connect":{}}')
        await socket.receive_str()
        sent = 1

        async def ask(command: dict[str, Any]) -> str:
            nonlocal sent
            sent += 1
            await socket.send_str(json.dumps({"id": sent, **command}))
            while not (text := await socket.receive_str(timeout=60)).startswith(f'{{"id":{sent},'):
                if text == "{}":
                    await socket.send_str("{}")
            return text

        async def took(query: str) -> float:
            name, _, value = query.partition("=")
            channel = f"{stacks.VIEW}?{name}={quote(value, safe=',')}"
            began = time.perf_counter()
            text = await ask({"subscribe": {"channel": channel}})
            spent = (time.perf_counter() - began) * 1000
            if '"rows":[[' not in text:
                raise BenchError(f"{query} gave no rows: {text[:200]}")
            await ask({"unsubscribe": {"channel": channel}})
            return spent

        yield took


def _reading(http: aiohttp.ClientSession, url: str, format: str) -> Took:
    async def took(query: str) -> float:
        name, _, value = query.partition("=")
        asked = {name: value, "limit": "10000"}
        began = time.perf_counter()
        async with http.get(
            f"{url}/v1/views/{stacks.VIEW}", params=asked, headers={"Accept": format}
        ) as reply:
            body = await reply.read()
            spent = (time.perf_counter() - began) * 1000
        if reply.status != 200 or len(body) < 1000:
            raise BenchError(f"{query} gave no rows: {reply.status} {body[:200]!r}")
        return spent

    return took
