from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from distributary.errors import UsageError
from distributary.httpd import dev_certificates

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["localhost", "127.0.0.1", "::1"]


def read(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def test_ca_signs_a_server_for_all_names(tmp_path: Path) -> None:
    ca, server = (
        dev_certificates.create_ca(tmp_path, NOW),
        dev_certificates.create_server(tmp_path, NAMES, NOW),
    )
    assert ca.new
    assert server.new
    made = read(server.certificate)
    made.verify_directly_issued_by(read(ca.certificate))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert server.expires == NOW + dev_certificates.LIFETIME


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    dev_certificates.create_ca(folder)
    dev_certificates.create_server(folder, NAMES)
    dev_certificates.create_client(folder, "ann")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.name for file in folder.iterdir()} == {
        *("ca.pem", "ca-key.pem", "server.pem", "server-key.pem"),
        *("client-ann.pem", "client-ann-key.pem"),
    }
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def test_valid_certificates_are_kept(tmp_path: Path) -> None:
    dev_certificates.create_ca(tmp_path, NOW)
    before = dev_certificates.create_server(tmp_path, NAMES, NOW)
    text = before.certificate.read_bytes()
    later = NOW + dev_certificates.LIFETIME - dev_certificates.RENEW_BEFORE - timedelta(days=1)
    assert not dev_certificates.create_ca(tmp_path, later).new
    assert not dev_certificates.create_server(tmp_path, NAMES, later).new
    assert before.certificate.read_bytes() == text


def test_expiring_certificates_are_replaced(tmp_path: Path) -> None:
    dev_certificates.create_ca(tmp_path, NOW)
    dev_certificates.create_server(tmp_path, NAMES, NOW)
    later = NOW + dev_certificates.LIFETIME - dev_certificates.RENEW_BEFORE + timedelta(days=1)
    assert not dev_certificates.create_ca(tmp_path, later).new
    again = dev_certificates.create_server(tmp_path, NAMES, later)
    assert again.new
    assert again.expires == later + dev_certificates.LIFETIME


def test_new_ca_signs_all_certificates_again(tmp_path: Path) -> None:
    dev_certificates.create_ca(tmp_path, NOW)
    dev_certificates.create_server(tmp_path, NAMES, NOW)
    (tmp_path / "ca-key.pem").unlink()
    assert dev_certificates.create_ca(tmp_path, NOW).new
    assert dev_certificates.create_server(tmp_path, NAMES, NOW).new


@pytest.mark.parametrize("broken", ["server.pem", "server-key.pem"])
def test_damaged_certificate_is_replaced(tmp_path: Path, broken: str) -> None:
    dev_certificates.create_ca(tmp_path, NOW)
    dev_certificates.create_server(tmp_path, NAMES, NOW)
    (tmp_path / broken).write_text("damaged")
    assert dev_certificates.create_server(tmp_path, NAMES, NOW).new


def test_additional_name_is_signed(tmp_path: Path) -> None:
    dev_certificates.create_ca(tmp_path, NOW)
    dev_certificates.create_server(tmp_path, NAMES, NOW)
    assert dev_certificates.create_server(tmp_path, [*NAMES, "box.example"], NOW).new
    assert not dev_certificates.create_server(tmp_path, NAMES, NOW).new


def test_signing_without_a_ca_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no valid CA"):
        dev_certificates.create_client(tmp_path, "ann")


def test_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        dev_certificates.create_ca(tmp_path / "file" / "tls")
