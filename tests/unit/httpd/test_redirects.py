"""Credentials go to the host that they are for, whatever it answers."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import URLError

import pytest

from distributary.config import Config
from distributary.config.schemas import Schemas
from distributary.control.api_client import ControlClient
from distributary.errors import SchemasUnavailable, StackNotRunning
from distributary.httpd.redirects import opener, same_host
from distributary.reducers.schema_registry import Registry


class Redirecting(ThreadingHTTPServer):
    """Sends everybody to ``target``, and answers under /there; ``keys`` are the credentials that it saw."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = ""
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Redirecting)
        server.keys.append(self.headers.get("X-API-Key"))
        there = self.path == "/there"
        self.send_response(200 if there else 302)
        if not there:
            self.send_header("Location", server.target)
        self.send_header("Content-Length", "2" if there else "0")
        self.end_headers()
        if there:
            self.wfile.write(b"[]")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def servers() -> Iterator[tuple[Redirecting, Redirecting]]:
    pair = Redirecting(), Redirecting()
    for one in pair:
        threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True).start()
    pair[0].target = f"{pair[1].url}/there"
    yield pair
    for one in pair:
        one.shutdown()
        one.server_close()


def test_control_client_sends_no_credentials_to_another_host(
    servers: tuple[Redirecting, Redirecting],
) -> None:
    first, second = servers
    with pytest.raises(StackNotRunning, match=r"it redirects to .*, where credentials are not sent"):
        ControlClient(first.url, headers=lambda: {"X-API-Key": "secret"}).get("/v1")
    assert (first.keys, second.keys) == (["secret"], [])


def test_registry_sends_no_credentials_to_another_host(servers: tuple[Redirecting, Redirecting]) -> None:
    first, second = servers
    registry = Registry(Config(schemas=Schemas(url=first.url, api_key="secret")))
    with pytest.raises(SchemasUnavailable, match="it redirects to"):
        registry.versions("s")
    assert (first.keys, second.keys) == (["secret"], [])


def test_redirect_within_the_host_is_followed(servers: tuple[Redirecting, Redirecting]) -> None:
    first, _ = servers
    first.target = "/there"
    assert ControlClient(first.url, headers=lambda: {"X-API-Key": "secret"}).get("/v1") == []
    assert first.keys == ["secret", "secret"]


@pytest.mark.parametrize(
    ("url", "target", "same"),
    [
        ("http://a/x", "http://a/y", True),
        ("http://a/x", "http://a:80/y", True),
        ("http://a:81/x", "https://a/y", True),
        ("http://A/x", "http://a/y", True),
        ("http://a/x", "http://b/x", False),
        ("http://a/x", "http://a:81/x", False),
        ("https://a/x", "http://a/x", False),
        ("http://a/x", "http://a@b/x", False),
        ("http://a/x", "http://a:x/x", False),
        ("http://a/x", "ftp://a/x", False),
    ],
)
def test_which_redirects_stay_within_a_host(url: str, target: str, same: bool) -> None:
    assert same_host(url, target) == same


def test_opener_refuses_a_redirect_to_another_host(servers: tuple[Redirecting, Redirecting]) -> None:
    with pytest.raises(URLError, match="credentials are not sent"):
        opener().open(urllib.request.Request(servers[0].url), timeout=10)
