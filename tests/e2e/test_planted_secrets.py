"""A stack with a secret in every setting that may have one: none is in its logs or command lines."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.clock import LIMIT
from tests.support.planted_secrets import MARK, whole
from tests.support.servers import StoreServer, free_port
from tests.support.stack import AttachedStack
from tests.support.up_command import Up

from distributary.auth.token_issuer import FILE as TOKEN_FILE
from distributary.setup.store_server import bundled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240 * LIMIT)]

FEED = """
[[feeds]]
name = "events"
topic = "events"
create = true

[[views]]
name = "events"
feed = "events"
reduce = "latest"
"""
FROM_ENVIRONMENT = ("store.url", "store.shards", "schemas.url", "auth.jwks_url", "socketio.publishers")
"""Addresses that must be reachable: they are set by environment variables."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreServer]:
    """A store server that requires a password."""
    folder = tmp_path / "valkey"
    folder.mkdir()
    binary = bundled()
    assert binary is not None
    server = StoreServer(binary, folder)
    server.start()
    server.set("requirepass", MARK)
    yield server
    server.stop()


@pytest.fixture
def up(tmp_path: Path, store: StoreServer) -> Iterator[Up]:
    relay, publisher = free_port(), free_port()
    env = {
        "DISTRIBUTARY_STORE_URL": f"redis://:{MARK}@127.0.0.1:{store.port}/0",
        "DISTRIBUTARY_AUTH_JWKS_URL": f"http://127.0.0.1:{free_port()}/keys.json?token={MARK}",
        "DISTRIBUTARY_SOCKETIO_PORT": str(relay),
        "DISTRIBUTARY_SOCKETIO_PUBLISHERS": f"ws://user:{MARK}@127.0.0.1:{publisher}",
    }
    folder = tmp_path / "stack"
    folder.mkdir()
    running = Up(folder, whole(*FROM_ENVIRONMENT) + FEED, env)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def fetch(url: str, headers: dict[str, str]) -> str:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=10 * LIMIT
        ) as reply:
            return str(reply.headers) + str(reply.read(100_000).decode())
    except urllib.error.HTTPError as error:
        with error:
            return str(error.headers) + error.read().decode()


def command(folder: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "distributary.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60 * LIMIT,
        check=False,
    )
    return done.stdout + done.stderr


def command_lines(pid: int) -> Iterator[str]:
    """Iterate over the command lines of the stack's processes, which every local user can read."""
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        try:
            yield " ".join(process.cmdline())
        except psutil.Error:  # it has ended
            continue


def test_stack_shows_no_planted_secret(up: Up) -> None:
    stack = AttachedStack(up.folder)
    seen: dict[str, str] = {}
    deadline = time.monotonic() + 90 * LIMIT
    while '"live"' not in (found := command(up.folder, "--json", "status")):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    stack.produce("events", [("a", {"n": 1}), ("b", b"no json"), ("c", {"password": "of a row"})])
    seen |= {f"command {n}": line for n, line in enumerate(command_lines(up.process.pid))}
    assert any("java" in line for line in seen.values())
    for arguments in (
        ("--json", "status"),
        ("status",),
        ("--json", "config"),
        ("view", "list"),
        ("topics", "list"),
    ):
        seen[" ".join(arguments)] = command(up.folder, *arguments)
    addresses = [at for component in up.components().values() for at in component["addresses"].values()]
    for address in [at for at in addresses if at.startswith("http")]:
        for headers in ({}, {"Authorization": f"Bearer {MARK}.{MARK}.{MARK}"}, {"X-API-Key": MARK}):
            for path in (
                "",
                "/v1/status",
                "/metrics",
                "/subjects",
                "/topics/events",
                "/v1/views/events/events",
            ):
                seen[f"{address}{path}"] = fetch(address.rstrip("/") + path, headers)
    up.stop()
    for file in up.folder.rglob("*"):
        # Two files may contain secrets: the configuration, and the stack's own token.
        if file.is_file() and file.name not in ("distributary.toml", TOKEN_FILE):
            seen[str(file.relative_to(up.folder))] = file.read_bytes().decode(errors="replace")
    assert {".distributary/stack.json", ".distributary/audit.log", ".distributary/logs/reducers.log"} <= set(
        seen
    )
    assert json.loads(seen[".distributary/stack.json"])["state"] == "stopped"
    shown = {name: text[max(0, text.find(MARK) - 200) :][:300] for name, text in seen.items() if MARK in text}
    assert not shown
