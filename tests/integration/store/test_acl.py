"""A user of its own on a shared server: the documented permissions suffice, and missing ones are listed."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest
import redis
from tests.support.clock import LIMIT
from tests.support.servers import free_port
from tests.support.store_acl import documented_acl

from distributary.errors import StoreUnavailable
from distributary.setup.store_server import bundled
from distributary.store.embedded_server import wait_for_store, wait_for_stores
from distributary.store.lua_scripts import script

Start = Callable[..., str]

PROGRAMS = [Path(one) for one in (bundled(), shutil.which("redis-server")) if one]


@pytest.fixture(params=PROGRAMS, ids=lambda path: path.name)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Start a server that has this one user and no other; gives its address."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*rule: str) -> str:
        port = free_port()
        argv = [request.param, "--port", port, "--bind", "127.0.0.1", "--dir", tmp_path, "--save", ""]
        argv += ["--appendonly", "yes", "--user", "default", "off", "--user", *rule]
        running.append(subprocess.Popen(list(map(str, argv)), stdout=subprocess.DEVNULL))
        return f"redis://{rule[0]}:{rule[2].removeprefix('>')}@127.0.0.1:{port}/0"

    yield begin
    for one in running:
        one.terminate()
        one.wait(20 * LIMIT)


async def test_documented_acl_is_sufficient(start: Start) -> None:
    address = start(*documented_acl())
    await wait_for_stores([address], 20 * LIMIT)
    with redis.Redis.from_url(address) as client:
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.append("d:store", "x")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.hget("somebody:else", "f")


async def test_missing_permissions_are_listed(start: Start) -> None:
    rule = [word for word in documented_acl() if word not in ("+hset", "+xadd")]
    with pytest.raises(StoreUnavailable, match=r"distributary:\*\*\*@.* may not use hset, xadd on keys d:\*"):
        await wait_for_store(start(*rule), 20 * LIMIT)


async def test_permissions_for_other_keys_are_not_sufficient(start: Start) -> None:
    rule = [word.replace("~d:*", "~e:*") for word in documented_acl()]
    with pytest.raises(StoreUnavailable, match=r"may not use get, set, exists, .*zscore on keys d:\*"):
        await wait_for_store(start(*rule), 20 * LIMIT)


@pytest.mark.parametrize("granted", [["-@all"], ["-@all", "+ping"], ["-@all", "+ping", "+eval"]])
async def test_user_without_permissions_is_refused_immediately(start: Start, granted: list[str]) -> None:
    address = start("nobody", "on", ">hush", "resetkeys", "resetchannels", *granted)
    async with asyncio.timeout(10 * LIMIT):
        with pytest.raises(StoreUnavailable, match="lacks permissions") as refused:
            await wait_for_store(address, 60 * LIMIT)
    assert "hush" not in str(refused.value)
    assert "ACL SETUSER" in refused.value.hint


def test_every_command_of_the_scripts_is_checked_and_documented() -> None:
    folder = resources.files("distributary.store").joinpath("lua")
    texts = [file.read_text() for file in folder.iterdir() if file.name.endswith(".lua")]
    used = {name.lower() for text in texts for name in re.findall(r"redis\.p?call\('([A-Za-z]+)'", text)}
    looked = {name.lower() for name in re.findall(r"\{'([A-Z]+)'", script("rights"))}
    documented = {word.removeprefix("+") for word in documented_acl() if word.startswith("+")}
    assert used <= looked
    assert documented - looked == {"select"}
    assert looked <= documented
