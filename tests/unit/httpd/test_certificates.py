from __future__ import annotations

import logging
import os
import ssl
import warnings
from pathlib import Path
from typing import Any

import pytest

from distributary.config import Control
from distributary.errors import ConfigError
from distributary.httpd import dev_certificates
from distributary.httpd.certificates import Certificates


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dev_certificates.create_ca(tmp_path)
    dev_certificates.create_server(tmp_path, ["localhost"])
    return tmp_path


def settings(folder: Path, **more: str) -> Control:
    files: dict[str, Any] = {"tls_certificate": "server.pem", "tls_key": "server-key.pem", **more}
    placed: dict[str, Any] = {name: str(folder / file) for name, file in files.items() if file}
    return Control(**placed)


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def shown(certificates: Certificates, trusting: ssl.SSLContext | None = None) -> str:
    """Shake hands without a socket, and give what the server shows."""
    server_in, server_out = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = trusting or _trusting()
    client = trusting.wrap_bio(server_out, server_in)
    assert certificates.context is not None
    server = certificates.context.wrap_bio(server_in, server_out, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = client.getpeercert(binary_form=True)
    assert found is not None
    return ssl.DER_cert_to_PEM_cert(found)


def replaced(folder: Path) -> None:
    for name in ("server.pem", "server-key.pem"):
        (folder / name).unlink()
    dev_certificates.create_server(folder, ["localhost"])


def test_no_certificate_means_no_context() -> None:
    certificates = Certificates(Control(), "control")
    assert certificates.context is None
    certificates.refresh()


def test_the_least_version_is_1_2(folder: Path) -> None:
    context = Certificates(settings(folder), "control").context
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE


def test_client_that_knows_1_1_only_is_refused(folder: Path) -> None:
    old = _trusting()
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        shown(Certificates(settings(folder), "control"), old)


def test_client_ca_demands_certificates(folder: Path) -> None:
    context = Certificates(settings(folder, tls_client_ca="ca.pem"), "control").context
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_key_and_certificate_may_share_a_file(folder: Path) -> None:
    both = (folder / "server.pem").read_text() + (folder / "server-key.pem").read_text()
    (folder / "both.pem").write_text(both)
    certificates = Certificates(settings(folder, tls_certificate="both.pem", tls_key=""), "control")
    assert shown(certificates) in both


def test_changed_certificate_is_shown_from_then_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    certificates = Certificates(settings(folder), "control")
    before = shown(certificates)
    certificates.refresh()
    assert shown(certificates) == before
    replaced(folder)
    certificates.refresh()
    assert shown(certificates) == (folder / "server.pem").read_text() != before
    assert "control.tls_certificate changed" in caplog.text


@pytest.mark.parametrize("broken", ["server.pem", "server-key.pem"])
def test_broken_new_file_leaves_the_old_certificate_and_is_logged_once(
    folder: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    certificates = Certificates(settings(folder), "control")
    before = shown(certificates)
    (folder / broken).write_text("not PEM at all")
    for _ in range(4):
        certificates.refresh()
        assert shown(certificates) == before
    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "keeping the old certificate" in errors[0]
    replaced(folder)
    certificates.refresh()
    assert shown(certificates) == (folder / "server.pem").read_text()


def test_pair_that_is_being_written_is_not_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificates = Certificates(settings(folder), "control")
    old_key = (folder / "server-key.pem").read_text()
    replaced(folder)
    new_key = (folder / "server-key.pem").read_text()
    (folder / "server-key.pem").write_text(old_key)
    certificates.refresh()
    (folder / "server-key.pem").write_text(new_key)
    os.utime(folder / "server-key.pem", (1, 1))
    certificates.refresh()
    assert shown(certificates) == (folder / "server.pem").read_text()
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_file_that_goes_leaves_the_old_certificate(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificates = Certificates(settings(folder), "control")
    before = shown(certificates)
    (folder / "server.pem").unlink()
    certificates.refresh()
    certificates.refresh()
    assert shown(certificates) == before
    assert "cannot be read: No such file" in caplog.text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"tls_certificate": "none.pem"},
            r"control.tls_certificate: .*none.pem cannot be read: No such",
        ),
        ({"tls_key": "ca-key.pem"}, r"cannot be used with .*ca-key.pem: key values mismatch"),
        ({"tls_certificate": "text.pem"}, r"text.pem cannot be used"),
        ({"tls_client_ca": "text.pem"}, r"control.tls_client_ca: .*text.pem cannot be used"),
        ({"tls_key": "locked.pem"}, r"cannot be used with .*locked.pem"),
    ],
)
def test_files_that_cannot_be_used_are_named(folder: Path, files: dict[str, str], said: str) -> None:
    (folder / "text.pem").write_text("hello")
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key((folder / "server-key.pem").read_bytes(), None)
    (folder / "locked.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(ConfigError, match=said):
        Certificates(settings(folder, **files), "control")


def test_certificate_about_to_end_is_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    from datetime import UTC, datetime, timedelta

    for days, said in ((5, "expires on"), (-5, "expired on")):
        (folder / "server.pem").unlink()
        dev_certificates.create_server(
            folder, ["localhost"], datetime.now(UTC) - dev_certificates.LIFETIME + timedelta(days=days)
        )
        Certificates(settings(folder), "control")
        assert said in caplog.text
