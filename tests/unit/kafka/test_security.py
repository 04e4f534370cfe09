"""What a connection of our own needs, by the properties of librdkafka."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from distributary.errors import KafkaRefused
from distributary.kafka.security import Security, security_of

SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "ann", "sasl.password": "hush"}


def read(**properties: Any) -> Security:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return security_of(named, "the quotas", "kafka-configs.sh")


@pytest.mark.parametrize(
    ("protocol", "tls", "mechanism"),
    [
        ("PLAINTEXT", False, ""),
        ("ssl", True, ""),
        ("SASL_PLAINTEXT", False, "SCRAM-SHA-512"),
        ("SASL_SSL", True, "SCRAM-SHA-512"),
    ],
)
def test_protocols(protocol: str, tls: bool, mechanism: str) -> None:
    found = read(security_protocol=protocol, **SCRAM)
    assert (found.context is not None, found.mechanism) == (tls, mechanism)
    assert (found.user, found.password) == ("ann", "hush")


def test_without_properties_it_is_plain() -> None:
    assert read() == Security(None, "", "", "")


def test_certificates_are_verified_unless_that_is_switched_off() -> None:
    found = read(security_protocol="SSL").context
    assert found is not None
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, True)
    found = read(security_protocol="SSL", ssl_endpoint_identification_algorithm="none").context
    assert found is not None
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, False)
    found = read(security_protocol="SSL", enable_ssl_certificate_verification="false").context
    assert found is not None
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI"),
        ({"security.protocol": "other"}, "OTHER"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "a.p12"}, "ssl.keystore.location"),
    ],
)
def test_what_is_not_served_names_kafkas_own_tool(properties: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaRefused, match=said) as caught:
        security_of(properties, "the quotas", "kafka-configs.sh")
    assert "kafka-configs.sh" in caught.value.hint


def test_files_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    with pytest.raises(KafkaRefused, match="cannot be used: No such file"):
        read(security_protocol="SSL", ssl_ca_location=str(tmp_path / "none.pem"))
    (tmp_path / "a.pem").write_text("no certificate")
    with pytest.raises(KafkaRefused, match="cannot be used"):
        read(security_protocol="SSL", ssl_ca_location=str(tmp_path / "a.pem"))
    with pytest.raises(KafkaRefused, match="cannot be used: No such file"):
        read(security_protocol="SSL", ssl_certificate_location=str(tmp_path / "none.pem"))
