"""The control API as a process with permission on: a real store, and a key set that is really fetched."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.processes import Process
from tests.support.reducer_harness import ReducerHarness
from tests.support.servers import StoreServer, free_port
from tests.support.signed_tokens import SECRET, ec_key, jwk, jwks, rsa_key, sign

from distributary.auth.token_issuer import sign_token
from distributary.config import Auth
from distributary.control.api_client import ControlClient
from distributary.errors import CredentialsMissing, Forbidden, KeysUnavailable, SubscribeError, TokenRefused
from distributary.model.build import Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.store.redis_writer import RedisWriter
from distributary.subscriber.sync_subscriber import subscribe_sync

ODDS = Definition(View("odds", "odds", key="id"), Feed("odds", "sportsbook.odds"))
AUTH = Auth(hmac_secret=SECRET)

Start = Callable[..., Process]


class KeyServer(ThreadingHTTPServer):
    """Serves a key set; ``text`` None: it answers with an error."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.text: bytes | None = None
        self.url = f"http://127.0.0.1:{self.server_address[1]}/keys"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: KeyServer

    def do_GET(self) -> None:
        text = self.server.text
        self.send_response(503 if text is None else 200)
        self.send_header("Content-Length", str(len(text or b"")))
        self.end_headers()
        self.wfile.write(text or b"")

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def key_server() -> Iterator[KeyServer]:
    server = KeyServer()
    yield server
    server.stop()


@pytest.fixture
def start(tmp_path: Path, store: StoreServer) -> Iterator[Start]:
    running: list[Process] = []

    def launch(**settings: str) -> Process:
        running.append(Process("distributary.control", environment(store, **settings), tmp_path / "log"))
        return running[-1]

    yield launch
    for process in running:
        process.stop()
    assert SECRET not in (tmp_path / "log").read_text()


def environment(store: StoreServer, **settings: str) -> dict[str, str]:
    return {
        "DISTRIBUTARY_STORE_URL": store.url,
        "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}",
        "DISTRIBUTARY_CONTROL_PORT": str(free_port()),
        **{f"DISTRIBUTARY_{name.upper()}": value for name, value in settings.items()},
    }


def client(process: Process, token: str = "") -> ControlClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return ControlClient(process.addresses["http"], headers=lambda: headers)


def fill(store: StoreServer) -> None:
    writer = RedisWriter(store.url)
    writer.define("odds", ODDS.build, ODDS.text)
    writer.close()
    folding = ReducerHarness(store.url, ODDS)
    folding.fold(a={"country": "DE"}, b={"country": "FR"})
    folding.go_live()
    folding.store.close()


def made(user: str, **allowed: Any) -> str:
    return sign_token(AUTH, user, allowed, 600)[0]


def test_each_sees_its_own_rows_until_it_is_revoked(start: Start, store: StoreServer) -> None:
    fill(store)
    process = start(auth_hmac_secret=SECRET, auth_revocation_delay="0")
    with pytest.raises(CredentialsMissing):
        client(process).get("/v1/views/odds")
    token = made("ann", views=["odds"], rows="country = 'DE'")
    ann, boss = client(process, token), client(process, made("boss", operator="admin"))
    assert [key for key, _ in ann.get("/v1/views/odds")["rows"]] == ["a"]
    subscription = ann.call("POST", "/v1/subscriptions", {"view": "odds"})
    assert "DE" in subscription["query"]
    with pytest.raises(Forbidden):
        ann.call("POST", "/v1/users/bob/revoke")
    with pytest.raises(Forbidden):
        ann.get("/v1/status")

    moment = boss.call("POST", "/v1/users/ann/revoke")["revoked_before"]
    with pytest.raises(TokenRefused, match="revoked"):
        ann.get("/v1/views/odds")
    while time.time() * 1000 <= moment + 1000:  # a token tells its time in whole seconds
        time.sleep(0.02)
    assert client(process, made("ann", views=["odds"])).get("/v1/views/odds")["count"] == 2

    # Another process on the same store knows of it, too.
    another = start(auth_hmac_secret=SECRET)
    with pytest.raises(TokenRefused, match="revoked"):
        client(another, token).get("/v1/views/odds")


def test_keys_are_fetched_rotated_and_kept(start: Start, store: StoreServer, key_server: KeyServer) -> None:
    fill(store)
    process = start(auth_jwks_url=key_server.url, auth_jwks_min_interval="1 s")
    now = int(time.time())
    body = {"sub": "ann", "views": ["odds"], "iat": now, "exp": now + 600}
    old = client(process, sign(body, rsa_key(), "RS256", kid="old"))
    new = client(process, sign(body, ec_key(), "ES256", kid="new"))
    with pytest.raises(KeysUnavailable):
        old.get("/v1/views/odds")
    key_server.text = jwks(jwk(rsa_key(), "old"))
    eventually(lambda: old.get("/v1/views/odds")["count"] == 2, KeysUnavailable)
    with pytest.raises(TokenRefused):
        new.get("/v1/views/odds")
    key_server.text = jwks(jwk(ec_key(), "new"), jwk(rsa_key(), "old"))
    eventually(lambda: new.get("/v1/views/odds")["count"] == 2, TokenRefused)
    key_server.text = None
    forged = client(process, sign(body, ec_key("other"), "ES256", kid="made up"))
    for _ in range(3):
        with pytest.raises(TokenRefused):
            forged.get("/v1/views/odds")
        assert new.get("/v1/views/odds")["count"] == 2


def eventually(what: Callable[[], bool], passing: type[Exception]) -> None:
    """Wait until it holds; an error that passes may come before."""
    deadline = time.monotonic() + 20 * LIMIT
    while True:
        try:
            if what():
                return
        except passing:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def test_publisher_requires_credentials_and_never_logs_them(store: StoreServer, tmp_path: Path) -> None:
    fill(store)
    (tmp_path / "distributary.toml").touch()
    env = environment(
        store,
        config=str(tmp_path / "distributary.toml"),
        auth_hmac_secret=SECRET,
        publisher_host="0.0.0.0",
        publisher_port=str(free_port()),
        publisher_http_port=str(free_port()),
    )
    process = Process("distributary.publisher", env, tmp_path / "log")
    good, bad = made("ann", views=["odds"], rows="country = 'DE'"), made("ann", views=["bets"])
    try:
        url = f"{process.addresses['http']}/v1/views/odds/events?token="
        with urllib.request.urlopen(url + good, timeout=30 * LIMIT) as reply:
            read = b""
            while b"ready" not in read:
                read += reply.readline()
        assert (b'"a"' in read, b'"b"' in read) == (True, False)
        for shown, status in ((bad, 403), (good + "x", 401), ("", 401)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(url + shown, timeout=30 * LIMIT)
            assert caught.value.code == status
            caught.value.close()
        with subscribe_sync("odds", url=process.addresses["websocket"], token=good) as changes:
            assert set(changes.rows) == {"a"}
        with (
            pytest.raises(SubscribeError, match="3500"),
            subscribe_sync("odds", url=process.addresses["websocket"]),
        ):
            pass
    finally:
        process.stop()
    log = (tmp_path / "log").read_text()
    for secret in (SECRET, good, bad, good.split(".")[1]):
        assert secret not in log


@pytest.mark.parametrize(
    ("module", "part"), [("control", "control"), ("control", "publisher"), ("publisher", "publisher")]
)
def test_open_stack_does_not_listen_on_the_network(
    store: StoreServer, tmp_path: Path, module: str, part: str
) -> None:
    (tmp_path / "distributary.toml").touch()
    env = environment(store, **{f"{part}_host": "0.0.0.0"})
    done = subprocess.run(
        [sys.executable, "-m", f"distributary.{module}"],
        env={**os.environ, **env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30 * LIMIT,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert f'{part}.host = "0.0.0.0"' in done.stderr
    assert "auth.hmac_secret" in done.stderr
    assert "Traceback" not in done.stderr


def test_up_refuses_the_same_before_it_starts_anything(tmp_path: Path) -> None:
    file = tmp_path / "distributary.toml"
    file.write_text('[publisher]\nhost = "0.0.0.0"\n')
    done = subprocess.run(
        [sys.executable, "-m", "distributary.cli", "up", "--config", str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30 * LIMIT,
    )
    assert done.returncode == 2
    assert 'publisher.host = "0.0.0.0"' in done.stderr
    assert not (tmp_path / ".distributary").exists()
