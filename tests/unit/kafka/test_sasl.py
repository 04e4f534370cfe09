"""Logins by PLAIN and SCRAM: the examples of the RFCs, and brokers that say something else."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.kafka.sasl import LoginFailed, login

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_example_of_rfc_7677() -> None:
    talk = login("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(talk) == f"n,,n=user,r={NONCE}".encode()
    assert talk.send(FIRST.encode()) == (
        f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    with pytest.raises(StopIteration):
        talk.send(FINAL.encode())


def test_plain() -> None:
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
        self.said = b"r=" + nonce + b"more,s=" + base64.b64encode(self.salt) + b",i=4096"
        return self.said

    def final(self, message: bytes) -> bytes | None:
        """Answer a proof; None where it is wrong."""
        without, _, proof = message.rpartition(b",p=")
        signed = b",".join((self.bare, self.said, without))
        stored = hashlib.new(self.digest, hmac.digest(self.salted, b"Client Key", self.digest)).digest()
        signature = hmac.digest(stored, signed, self.digest)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.digest, key).digest() != stored:
            return None
        server = hmac.digest(self.salted, b"Server Key", self.digest)
        return b"v=" + base64.b64encode(hmac.digest(server, signed, self.digest))


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
@pytest.mark.parametrize("user", ["ann", "a=b,c", "ünï"])
def test_broker_lets_in_who_knows_the_password_and_nobody_else(digest: str, user: str) -> None:
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
    ("first", "final", "said"),
    [
        ("r=somebody else's,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "", "nonce"),
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
def test_broker_that_says_something_else(first: str, final: str, said: str) -> None:
    talk = login("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(talk)

    def rest() -> None:
        talk.send(first.encode())
        talk.send(final.encode())

    with pytest.raises(LoginFailed, match=said):
        rest()


@given(st.binary(max_size=200))
def test_any_answer_is_refused_or_taken(answer: bytes) -> None:
    talk = login("SCRAM-SHA-512", "user", "pencil", NONCE)
    next(talk)
    with pytest.raises(LoginFailed):
        talk.send(answer)
