"""Logins by PLAIN and SCRAM: the examples of the RFCs, and brokers that say something else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import KafkaRefused
from distributary.kafka.broker_request import LoginFailed, Security, login, security_of

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_login_equals_the_example_of_rfc_7677() -> None:
    talk = login("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(talk) == f"n,,n=user,r={NONCE}".encode()
    assert talk.send(FIRST.encode()) == (
        f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    with pytest.raises(StopIteration):
        talk.send(FINAL.encode())


def test_plain_login_sends_user_and_password() -> None:
    talk = login("PLAIN", "ann", "hush", NONCE)
    assert next(talk) == b"\0ann\0hush"
    with pytest.raises(StopIteration):
        talk.send(b"")


class Broker:
    """Who knows the password, by the RFC's own formulas."""

    def __init__(self, digest: str, password: str) -> None:
        self.digest = digest
        self.salt = b"salt and pepper"
        self.salted = hashlib.pbkdf2_hmac(digest, password.encode(), self.salt, 4096)

    def first(self, message: bytes) -> bytes:
        self.bare = message.removeprefix(b"n,,")
        nonce = self.bare.rpartition(b",r=")[2]
        self.challenge = b"r=" + nonce + b"more,s=" + base64.b64encode(self.salt) + b",i=4096"
        return self.challenge

    def final(self, message: bytes) -> bytes | None:
        """Answer a proof; None where it is wrong."""
        without, _, proof = message.rpartition(b",p=")
        signed = b",".join((self.bare, self.challenge, without))
        stored = hashlib.new(self.digest, hmac.digest(self.salted, b"Client Key", self.digest)).digest()
        signature = hmac.digest(stored, signed, self.digest)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.digest, key).digest() != stored:
            return None
        server = hmac.digest(self.salted, b"Server Key", self.digest)
        return b"v=" + base64.b64encode(hmac.digest(server, signed, self.digest))


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
@pytest.mark.parametrize("user", ["ann", "a=b,c", "ünï"])
def test_scram_login_succeeds_only_with_the_password(digest: str, user: str) -> None:
    mechanism = f"SCRAM-SHA-{digest[3:]}"
    broker, talk = Broker(digest, "päss"), login(mechanism, user, "päss", NONCE)
    answer = broker.final(talk.send(broker.first(next(talk))))
    assert answer is not None
    assert broker.bare.count(b",") == 1
    with pytest.raises(StopIteration):
        talk.send(answer)
    wrong = login(mechanism, user, "other", NONCE)
    assert broker.final(wrong.send(broker.first(next(wrong)))) is None


@pytest.mark.parametrize(
    ("first", "final", "message"),
    [
        ("r=another's,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "", "nonce"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "", "nonce"),
        (f"r={NONCE}x,i=4096", "", "salt"),
        (f"r={NONCE}x,s=***,i=4096", "", "base64"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "", "'1' iterations"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999999999", "", "iterations"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=x", "", "iterations"),
        (FIRST, "e=invalid-proof", "refuses the proof: invalid-proof"),
        (FIRST, "v=AAAA", "did not prove"),
        (FIRST, "", "did not prove"),
    ],
)
def test_login_fails_on_an_invalid_message_of_the_broker(first: str, final: str, message: str) -> None:
    talk = login("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(talk)

    def rest() -> None:
        talk.send(first.encode())
        talk.send(final.encode())

    with pytest.raises(LoginFailed, match=message):
        rest()


@given(st.binary(max_size=200))
def test_any_message_is_refused_or_accepted(answer: bytes) -> None:
    talk = login("SCRAM-SHA-512", "user", "pencil", NONCE)
    next(talk)
    with pytest.raises(LoginFailed):
        talk.send(answer)


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
def test_security_protocol_chooses_tls_and_login(protocol: str, tls: bool, mechanism: str) -> None:
    found = read(security_protocol=protocol, **SCRAM)
    assert (found.context is not None, found.mechanism) == (tls, mechanism)
    assert (found.user, found.password) == ("ann", "hush")


def test_connection_without_properties_is_plaintext() -> None:
    assert read() == Security(None, "", "", "")


def test_certificates_are_verified_unless_disabled() -> None:
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
    ("properties", "message"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI"),
        ({"security.protocol": "other"}, "OTHER"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "a.p12"}, "ssl.keystore.location"),
    ],
)
def test_unsupported_properties_name_kafkas_own_tool(properties: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaRefused, match=message) as caught:
        security_of(properties, "the quotas", "kafka-configs.sh")
    assert "kafka-configs.sh" in caught.value.hint


def test_invalid_certificate_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(KafkaRefused, match="cannot use the certificates for Kafka: No such file"):
        read(security_protocol="SSL", ssl_ca_location=str(tmp_path / "none.pem"))
    (tmp_path / "a.pem").write_text("no certificate")
    with pytest.raises(KafkaRefused, match="cannot use the certificates"):
        read(security_protocol="SSL", ssl_ca_location=str(tmp_path / "a.pem"))
    with pytest.raises(KafkaRefused, match="cannot use the certificates for Kafka: No such file"):
        read(security_protocol="SSL", ssl_certificate_location=str(tmp_path / "none.pem"))
