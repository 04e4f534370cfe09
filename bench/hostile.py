"""What one hostile user with a valid token does to the others, path by path.

A subscriber follows the whole view while another user's process uses one path as fast as the servers let it.
With and without it take turns. The attacker gets only processor time that nobody else wants (SCHED_IDLE):
what it costs to be hostile is its own, what the servers do for it is in the figures.

A single pause of 100 ms is one in a hundred of a turn's records, and pauses come by chance: so each turn has
a p99 of its own, and the medians of the turns with and without are compared.
"""

from __future__ import annotations

import json
import os
import statistics
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from bench import child, load, stacks
from bench.attack import PATHS
from bench.child import BenchError, Child
from bench.figures import Say, percentile
from bench.latency import stamps
from bench.spec import Hostile
from distributary.auth.token_issuer import sign_token
from distributary.stack.embedded_stack import Stack

SECRET = "a secret of the benchmark, long enough for HS256"
OWN_FEED, OWN_TOPIC = "own", "hostile.own"

Figures = dict[str, Any]


async def measure(spec: Hostile, folder: Path, say: Say) -> Figures:
    """Measure each path; the figures are the p99 under attack over that without, and the servers' memory."""
    config = stacks.configure(
        folder,
        spec.partitions,
        spark='batch_duration = "1 hour"',  # or the pause at its end would affect one path only
        feeds=f'[[feeds]]\nname = "{OWN_FEED}"\ntopic = "{OWN_TOPIC}"\ncreate = true\npublish = true\n',
        more=f'[auth]\nhmac_secret = "{SECRET}"\n',
    )
    async with AsyncExitStack() as exits:
        say("starting a stack with permission on")
        stack = await exits.enter_async_context(stacks.running(config, say))
        await stacks.wait_live(stack)
        where = stack.addresses
        victim, _ = sign_token(config.auth, "victim", {"views": [stacks.VIEW]}, 7200)
        subscriber = await load.subscriber(
            exits, folder, where["websocket"], [stacks.VIEW], stamps=True, token=victim
        )
        producer = await load.producer(exits, folder, where["kafka"], 0, kind="stamped", keys=spec.keys)
        await _register(stack)
        attacker = await _attacker(exits, folder, stack)
        say(f"warming up: {spec.rate:,} rec/s for {spec.warm_up:g} s")
        turns: list[tuple[str, dict[str, Any]]] = []
        busy: dict[str, list[float]] = {}
        sent = (await load.phase(producer, rate=spec.rate, seconds=spec.warm_up))["sent"]
        await load.arrived(subscriber, sent)
        before, largest = _memory(stack), dict(_memory(stack))
        out: Figures = {}
        for path in PATHS:
            for turn in range(2 * spec.rounds):
                hostile = turn % 2 == 1
                if hostile:
                    attacker.tell(path.encode())
                sent += (await load.phase(producer, rate=spec.rate, seconds=spec.settle))["sent"]
                name, began = path if hostile else f"{path}_alone", _cpu_seconds(stack)
                done = await load.phase(producer, rate=spec.rate, seconds=spec.seconds)
                busy.setdefault(name, []).append((_cpu_seconds(stack) - began) / spec.seconds)
                sent += done["sent"]
                turns.append((name, done))
                largest = {name: max(size, largest.get(name, 0)) for name, size in _memory(stack).items()}
                if hostile:
                    out[f"hostile_{path}_used"] = (await attacker.ask(b"stop", 30))["used"]
            say(f"{path}: {json.dumps(out[f'hostile_{path}_used'])}")
        await load.arrived(subscriber, sent, 60)
        pairs = await stamps(subscriber, folder)
    delays: dict[str, list[float]] = {}
    both = list(zip(pairs[::2], pairs[1::2], strict=True))
    for name, phase in turns:
        begin, end = phase["begin_ns"], phase["end_ns"]
        chosen = [delay / 1e6 for stamp, delay in both if begin <= stamp <= end]
        if len(chosen) != phase["sent"]:
            raise BenchError(f"{name}: {len(chosen):,} delays of {phase['sent']:,} records")
        delays.setdefault(name, []).append(percentile(sorted(chosen), 0.99))
    for path in PATHS:
        alone, under = (statistics.median(delays[name]) for name in (f"{path}_alone", path))
        out[f"hostile_{path}_alone_p99_ms"], out[f"hostile_{path}_p99_ms"] = round(alone, 3), round(under, 3)
        out[f"hostile_{path}_p99_ratio"] = round(under / alone, 2)
        out[f"hostile_{path}_p99_by_turn"] = [
            [round(each, 1) for each in delays[name]] for name in (f"{path}_alone", path)
        ]
        more = statistics.median(busy[path]) - statistics.median(busy[f"{path}_alone"])
        out[f"hostile_{path}_core_share"] = round(more, 3)
    out["hostile_p99_ratio"] = max(out[f"hostile_{path}_p99_ratio"] for path in PATHS)
    out |= {f"hostile_growth_mib_{name}": round((largest[name] - before[name]) / 2**20) for name in before}
    return out


async def _attacker(exits: AsyncExitStack, folder: Path, stack: Stack) -> Child:
    allowed = {
        "views": [stacks.VIEW],
        "publish": [OWN_FEED],
        "produce": [OWN_TOPIC],
        "consume": [OWN_TOPIC],
        "register": [f"{OWN_TOPIC}-value"],
        "operator": "read",
    }
    # A user for each path: one that took too much on another would be held back on this one.
    users = {path: f"mallory-{path}" for path in PATHS}
    tokens = {path: sign_token(stack.config.auth, users[path], allowed, 7200)[0] for path in PATHS}
    where = stack.addresses
    addresses = {name: where[name] for name in ("websocket", "control", "gateway")}
    addresses["http"] = where["publisher"] if "publisher" in where else where["http"]
    asked = {
        "addresses": addresses,
        "users": users,
        "tokens": tokens,
        "feed": OWN_FEED,
        "topic": OWN_TOPIC,
        "view": stacks.VIEW,
    }
    started = await exits.enter_async_context(
        child.run("attack", child.module("bench.attack", json.dumps(asked)), folder)
    )
    os.sched_setscheduler(started.pid, os.SCHED_IDLE, os.sched_param(0))
    await started.line(60)
    return started


async def _register(stack: Stack) -> None:
    """Have a schema registered: the first one of a stack makes Kafka's topics of transactions."""
    rights = {"produce": [OWN_TOPIC], "register": [f"{OWN_TOPIC}-value"]}
    token, _ = sign_token(stack.config.auth, "loader", rights, 7200)
    body = {"value_schema": '{"type": "string"}', "records": [{"value": "a"}]}
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/vnd.kafka.jsonschema.v2+json",
    }
    url = f"{stack.addresses['gateway']}/topics/{OWN_TOPIC}"
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, headers=headers, data=json.dumps(body)) as reply,
    ):
        if reply.status != 200:
            raise BenchError(f"a schema was not registered: {reply.status} {await reply.text()}")


def _servers(stack: Stack) -> dict[str, psutil.Process]:
    """The servers that a user reaches, and the store."""
    return {
        part.name: psutil.Process(part.pid)
        for part in stack.state.components
        if part.pid and (part.name in ("control", "gateway", "store") or part.name.startswith("publisher"))
    }


def _memory(stack: Stack) -> dict[str, int]:
    """Their resident memory."""
    return {name: process.memory_info().rss for name, process in _servers(stack).items()}


def _cpu_seconds(stack: Stack) -> float:
    """Processor time that they have taken, with what they started and have waited for."""
    return sum(sum(process.cpu_times()[:4]) for process in _servers(stack).values())
