from collections.abc import Callable
from pathlib import Path

import pytest

from distributary.errors import StoreServerMissing
from distributary.setup import store_server
from distributary.setup.store_server import StoreServer

Script = Callable[[str, str], Path]
VALKEY = "echo 'Valkey server v=9.1.2 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1'"
REDIS = "echo 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1'"
OLD = "echo 'Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1'"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv(store_server.OVERRIDE, raising=False)


def test_valkey_is_preferred_on_path(script: Script) -> None:
    script("path/redis-server", REDIS)
    path = script("path/valkey-server", VALKEY)
    assert store_server.find() == StoreServer(path, "valkey", "9.1.2")


def test_redis_on_path_is_preferred_to_the_wheel(script: Script) -> None:
    path = script("path/redis-server", REDIS)
    assert store_server.find() == StoreServer(path, "redis", "7.0.15")


@pytest.mark.parametrize("body", [OLD, "exit 1", "echo hello"])
def test_unusable_server_is_skipped_for_the_wheel(script: Script, body: str) -> None:
    script("path/redis-server", body)
    found = store_server.find()
    assert found.path == store_server.bundled()
    assert found.kind == "valkey"
    assert int(found.version.split(".")[0]) >= 8


def test_override_is_used_first(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script("path/valkey-server", VALKEY)
    mine = script("mine/server", REDIS)
    monkeypatch.setenv(store_server.OVERRIDE, str(mine))
    assert store_server.find() == StoreServer(mine, "redis", "7.0.15")


@pytest.mark.parametrize(("body", "why"), [(None, "does not exist"), (OLD, r"is redis 6\.0\.16, too old")])
def test_invalid_override_is_an_error(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str | None, why: str
) -> None:
    script("path/valkey-server", VALKEY)
    mine = script("mine/server", body) if body else tmp_path / "nothing"
    monkeypatch.setenv(store_server.OVERRIDE, str(mine))
    with pytest.raises(StoreServerMissing, match=rf"{store_server.OVERRIDE}=\S+ cannot be used: {why}"):
        store_server.find()


def test_missing_server_error_names_what_was_tried(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script("path/redis-server", OLD)
    monkeypatch.setattr(store_server, "bundled", lambda: None)
    with pytest.raises(StoreServerMissing, match=r"redis-server is redis 6\.0\.16, too old") as caught:
        store_server.find()
    assert "apt-get install redis-server" in caught.value.hint
