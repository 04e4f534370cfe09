"""Scenario 4: publications delivered for a CPU second of the server, beside a Go server in the same run.

Both servers run at once, each with its own connections; they take turns in being published to. Ours is a
publisher process as it is shipped, fed through the store; the peer is a Go library that is published to in
its own memory, which costs it less.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench import child, stacks
from bench.child import ROOT, BenchError, Child
from bench.figures import Say
from bench.payload import Payload
from bench.spec import FanOut
from distributary.config import Config
from distributary.config.embedded_defaults import new_password
from distributary.model.build import Build, Definition
from distributary.reducers.record_codec import Packed
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer, ReducerOptions
from distributary.setup import store_server
from distributary.stack.ports import Ports
from distributary.store.embedded_server import EmbeddedServer
from distributary.store.redis_writer import RedisWriter

PEER = ROOT / "bench" / "peer"
VERSION = "github.com/centrifugal/centrifuge v0.38.0"


@dataclass
class Side:
    """One of the two servers, its connections, and what was measured of it."""

    name: str
    server: Child
    swarm: Child
    publish: Callable[[int], None]
    published: int = 0
    deliveries: int = 0
    frames: int = 0
    cpu: float = 0.0
    busy: list[float] = field(default_factory=list)
    per_cpu: list[float] = field(default_factory=list)

    def cpu_now(self) -> float:
        times = psutil.Process(self.server.pid).cpu_times()
        return float(times.user + times.system)


async def measure(spec: FanOut, folder: Path, say: Say) -> dict[str, Any]:
    """Publish to both servers in turns; the figures are of all turns together."""
    folder.mkdir(parents=True, exist_ok=True)
    programs = await asyncio.to_thread(build, say)
    _allow_files(spec.connections)
    async with AsyncExitStack() as exits:
        sides = [
            await _ours(exits, spec, folder, programs, say),
            await _peer(exits, spec, folder, programs, say),
        ]
        for side in sides:
            await _turn(side, spec, spec.warm_up, count=False)
        for round_ in range(spec.rounds):
            for side in sides:
                await _turn(side, spec, spec.seconds, count=True)
                say(
                    f"round {round_ + 1}, {side.name}: {side.per_cpu[-1]:,.0f} deliveries a CPU second, "
                    f"{side.busy[-1]:.0%} of a core"
                )
    return _figures(spec, *sides)


def build(say: Say) -> Path:
    """Build the peer and the load generator; returns the folder of the programs."""
    go = shutil.which("go")
    if go is None:
        raise BenchError("Go is not on PATH, and the load generator and the peer are built with it")
    programs = PEER / "bin"
    say("building the peer and the load generator")
    done = subprocess.run(
        [go, "build", "-o", f"{programs}/", "./..."], cwd=PEER, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        raise BenchError(f"go build failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return programs


def _allow_files(connections: int) -> None:
    """A server has a descriptor for each connection; children inherit what is set here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 500
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise BenchError(f"{wanted} open files are needed and {hard} are allowed (ulimit -n)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _ours(exits: AsyncExitStack, spec: FanOut, folder: Path, programs: Path, say: Say) -> Side:
    say("starting the store and a publisher")
    publisher, url, reducer = await serve(exits, folder)
    payload = Payload(spec.payload_bytes)

    def publish(n: int) -> None:
        record = Packed(
            partition=0,
            offset=n,
            time=payload.time,
            event_time=payload.time,
            key=payload.key,
            value=payload.value(n),
            unparsed=False,
        )
        if reducer.fold([record]) != 1:
            raise BenchError("a record made no change")

    publish(0)  # the row is there before anybody subscribes: all that follows are changes
    say(f"connecting {spec.connections:,} subscribers to ours")
    swarm = await _swarm(exits, "ours", url, spec, folder, programs)
    return Side("ours", publisher, swarm, publish, published=1)


async def serve(exits: AsyncExitStack, folder: Path) -> tuple[Child, str, Reducer]:
    """Start a store and a publisher process; returns it, its address, and a reducer of a live view."""
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
    config = stacks.configure(folder, 1)
    writer = RedisWriter(server.url)
    exits.callback(writer.close)
    reducer = _reducer(config, writer)
    env = {
        "DISTRIBUTARY_CONFIG": str(config.path),
        "DISTRIBUTARY_STORE_URL": server.url,
        "DISTRIBUTARY_PUBLISHER_PORT": str(ports.choose("publisher", 0)),
        "DISTRIBUTARY_PUBLISHER_HTTP_PORT": str(ports.choose("publisher-http", 0)),
    }
    publisher = await exits.enter_async_context(
        child.run("publisher", child.module("distributary.publisher"), folder, env)
    )
    return publisher, (await publisher.line(30))["addresses"]["websocket"], reducer


def _reducer(config: Config, store: RedisWriter) -> Reducer:
    """A live view that is written as reducers write it, without Spark."""
    view, feed = config.view(stacks.VIEW), config.feed("bench")
    definition = Definition(view, feed)
    made = Build(view.name, definition.build)
    store.define(view.name, made.id, definition.text)
    claimed = store.claim(made, "bench", 1)
    store.go_live(made)
    reducer = Reducer(
        store,
        made,
        0,
        claimed.claim,
        ReducerOptions(view=view, rule=rule_of(view), write_dead_letters=_no_dead_letters),
    )
    reducer.open()
    return reducer


def _no_dead_letters(letters: object) -> None:
    raise BenchError(f"a record could not be folded: {letters}")


async def _peer(exits: AsyncExitStack, spec: FanOut, folder: Path, programs: Path, say: Say) -> Side:
    server = await exits.enter_async_context(
        child.run("peer", [str(programs / "server"), stacks.VIEW], folder)
    )
    url = (await server.line(30))["url"]
    payload = Payload(spec.payload_bytes)

    def publish(n: int) -> None:
        server.tell(payload.data(n))

    say(f"connecting {spec.connections:,} subscribers to the peer")
    swarm = await _swarm(exits, "peer", url, spec, folder, programs)
    return Side("peer", server, swarm, publish, published=1)


async def _swarm(
    exits: AsyncExitStack, name: str, url: str, spec: FanOut, folder: Path, programs: Path
) -> Child:
    argv = [str(programs / "swarm"), "-url", url, "-channel", stacks.VIEW]
    argv += ["-connections", str(spec.connections)]
    swarm = await exits.enter_async_context(child.run(f"swarm-{name}", argv, folder))
    await swarm.line(60)
    return swarm


async def _turn(side: Side, spec: FanOut, seconds: float, *, count: bool) -> None:
    """Publish to one server at the rate, wait until all has come, and count."""
    total = round(spec.rate * seconds)
    before, cpu, began = await side.swarm.ask(b"", 10), side.cpu_now(), time.monotonic()
    await _publish(side, spec.rate, total)
    deadline = time.monotonic() + 10
    wanted = before["publications"] + total * spec.connections
    while (after := await side.swarm.ask(b"", 10))["publications"] < wanted:
        if after["lost"] or time.monotonic() > deadline:
            raise BenchError(
                f"{side.name}: {after['publications'] - before['publications']:,} of "
                f"{total * spec.connections:,} publications came, {after['lost']} connections were lost"
            )
        await asyncio.sleep(0.02)
    used, took = side.cpu_now() - cpu, time.monotonic() - began
    if not count:
        return
    deliveries = after["publications"] - before["publications"]
    side.deliveries += deliveries
    side.frames += after["frames"] - before["frames"]
    side.cpu += used
    side.busy.append(used / took)
    side.per_cpu.append(deliveries / max(used, 0.01))


async def _publish(side: Side, rate: int, total: int) -> None:
    """One publication at a time, on time. Publishing blocks for a moment; nothing else is to be done here."""
    began = time.monotonic()
    for n in range(total):
        await asyncio.sleep(max(0.0, began + n / rate - time.monotonic()))
        side.publish(side.published)
        side.published += 1


def _figures(spec: FanOut, ours: Side, peer: Side) -> dict[str, Any]:
    own, its = ours.deliveries / max(ours.cpu, 0.01), peer.deliveries / max(peer.cpu, 0.01)
    return {
        "deliveries_per_cpu_s": round(own),
        "peer_deliveries_per_cpu_s": round(its),
        "fanout_ratio_to_go": round(own / its, 3),
        "fanout_ratio_by_round": [round(a / b, 3) for a, b in zip(ours.per_cpu, peer.per_cpu, strict=True)],
        # A frame may carry several publications; with one in each these are the same as above.
        "frames_per_cpu_s": round(ours.frames / max(ours.cpu, 0.01)),
        "peer_frames_per_cpu_s": round(peer.frames / max(peer.cpu, 0.01)),
        "publications_per_frame": round(ours.deliveries / ours.frames, 3),
        "peer_publications_per_frame": round(peer.deliveries / peer.frames, 3),
        "fanout_core_share": round(sum(ours.busy) / len(ours.busy), 3),
        "peer_core_share": round(sum(peer.busy) / len(peer.busy), 3),
        "fanout_connections": spec.connections,
        "peer": VERSION,
    }
