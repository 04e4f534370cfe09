from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest

from distributary.auth.client_security import Trust
from distributary.errors import ConfigError
from distributary.httpd import dev_certificates


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dev_certificates.make_ca(tmp_path)
    dev_certificates.make_server(tmp_path, ["stream.example.com"])
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


def test_a_stack_is_known_by_its_certificate_at_its_own_ports_alone(folder: Path) -> None:
    parts = [{"addresses": {"http": "https://127.0.0.1:8080"}}, {"addresses": {"kafka": "127.0.0.1:9092"}}]
    said = {"parts": parts, "certificates": [str(folder / "server.pem")]}
    (folder / "stack.json").write_text(json.dumps(said))
    trust = Trust.of_stack(folder, {})
    ours, other = trust.context("https://localhost:8080/v1"), trust.context("https://127.0.0.1:8443")
    assert ours is not None
    assert other is not None
    assert (ours.check_hostname, other.check_hostname) == (False, True)


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"parts": 1, "certificates": []}'])
def test_a_folder_without_a_stack_changes_nothing(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "stack.json").write_text(text)
    context = Trust.of_stack(tmp_path, {}).context("https://127.0.0.1:8080")
    assert context is not None
    assert context.check_hostname


def test_a_private_ca_is_added_to_the_systems(folder: Path) -> None:
    before, after = (
        Trust(env).context("https://stream.example.com")
        for env in ({}, {"DISTRIBUTARY_TLS_CA": str(folder / "ca.pem")})
    )
    assert before is not None
    assert after is not None
    assert after.cert_store_stats()["x509_ca"] == before.cert_store_stats()["x509_ca"] + 1


def test_a_changed_file_is_read_again(folder: Path) -> None:
    trust = Trust({"DISTRIBUTARY_TLS_CA": str(folder / "ca.pem")})
    before = trust.context("https://stream.example.com")
    assert trust.context("https://stream.example.com") is before
    (folder / "ca.pem").unlink()
    dev_certificates.make_ca(folder)
    assert trust.context("https://stream.example.com") is not before


@pytest.mark.parametrize("variable", ["DISTRIBUTARY_TLS_CA", "DISTRIBUTARY_TLS_CERTIFICATE"])
def test_files_of_the_environment_that_cannot_be_used_are_named(folder: Path, variable: str) -> None:
    for file, why in ((folder / "none.pem", "No such file"), (folder / "text.pem", "cannot be used")):
        (folder / "text.pem").write_text("hello")
        with pytest.raises(ConfigError, match=rf"{variable}: .*{why}"):
            Trust({variable: str(file)}).context("https://stream.example.com")
