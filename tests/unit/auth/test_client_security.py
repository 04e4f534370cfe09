from __future__ import annotations

import json
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from distributary.auth.client_security import Trust, opener, same_host
from distributary.config import Config
from distributary.config.sections import Schemas
from distributary.control.api_client import ControlClient
from distributary.errors import ConfigError, SchemasUnavailable, StackNotRunning
from distributary.httpd import dev_certificates
from distributary.reducers.schema_registry import Registry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dev_certificates.create_ca(tmp_path)
    dev_certificates.create_server(tmp_path, ["stream.example.com"])
    return tmp_path


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "ws://a.example:8000/connection/websocket"])
def test_plain_addresses_need_no_context(url: str) -> None:
    assert Trust({}).context(url) is None


def test_names_are_checked_unless_the_very_certificate_is_known(folder: Path) -> None:
    for trust in (Trust({}), Trust({}, [folder / "server.pem"])):
        context = trust.context("wss://stream.example.com")
        assert context is not None
        assert context.check_hostname
        assert context.verify_mode is ssl.CERT_REQUIRED
    pinned = Trust({}, [folder / "server.pem"]).context("wss://127.0.0.1:8000")
    assert pinned is not None
    assert not pinned.check_hostname
    assert pinned.verify_mode is ssl.CERT_REQUIRED
    assert pinned.cert_store_stats()["x509"] == 1


def test_of_a_chain_only_the_servers_own_certificate_is_pinned(folder: Path) -> None:
    chain = (folder / "server.pem").read_text() + (folder / "ca.pem").read_text()
    (folder / "chain.pem").write_text(chain)
    context = Trust({}, [folder / "chain.pem"]).context("https://localhost")
    assert context is not None
    assert context.cert_store_stats() == {"x509": 1, "crl": 0, "x509_ca": 0}


def test_certificate_of_a_stack_is_trusted_at_its_own_ports_only(folder: Path) -> None:
    parts = [{"addresses": {"http": "https://127.0.0.1:8080"}}, {"addresses": {"kafka": "127.0.0.1:9092"}}]
    said = {"components": parts, "certificates": [str(folder / "server.pem")]}
    (folder / "stack.json").write_text(json.dumps(said))
    trust = Trust.of_stack(folder, {})
    ours, other = trust.context("https://localhost:8080/v1"), trust.context("https://127.0.0.1:8443")
    assert ours is not None
    assert other is not None
    assert (ours.check_hostname, other.check_hostname) == (False, True)


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"components": 1, "certificates": []}'])
def test_folder_without_a_stack_changes_nothing(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "stack.json").write_text(text)
    context = Trust.of_stack(tmp_path, {}).context("https://127.0.0.1:8080")
    assert context is not None
    assert context.check_hostname


def test_private_ca_is_added_to_the_systems(folder: Path) -> None:
    before, after = (
        Trust(env).context("https://stream.example.com")
        for env in ({}, {"DISTRIBUTARY_TLS_CA": str(folder / "ca.pem")})
    )
    assert before is not None
    assert after is not None
    assert after.cert_store_stats()["x509_ca"] == before.cert_store_stats()["x509_ca"] + 1


def test_changed_file_is_read_again(folder: Path) -> None:
    trust = Trust({"DISTRIBUTARY_TLS_CA": str(folder / "ca.pem")})
    before = trust.context("https://stream.example.com")
    assert trust.context("https://stream.example.com") is before
    (folder / "ca.pem").unlink()
    dev_certificates.create_ca(folder)
    assert trust.context("https://stream.example.com") is not before


@pytest.mark.parametrize("variable", ["DISTRIBUTARY_TLS_CA", "DISTRIBUTARY_TLS_CERTIFICATE"])
def test_files_of_the_environment_that_cannot_be_used_are_named(folder: Path, variable: str) -> None:
    for file, why in ((folder / "none.pem", "No such file"), (folder / "text.pem", "cannot be used")):
        (folder / "text.pem").write_text("hello")
        with pytest.raises(ConfigError, match=rf"{variable}: .*{why}"):
            Trust({variable: str(file)}).context("https://stream.example.com")


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
def test_redirect_is_followed_within_a_host_only(url: str, target: str, same: bool) -> None:
    assert same_host(url, target) == same


def test_opener_refuses_a_redirect_to_another_host(servers: tuple[Redirecting, Redirecting]) -> None:
    with pytest.raises(URLError, match="credentials are not sent"):
        opener().open(urllib.request.Request(servers[0].url), timeout=10)
