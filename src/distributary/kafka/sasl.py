"""What a client says to a broker to log in, by PLAIN or SCRAM (RFC 5802). Pure: messages in, messages out."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Generator

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_LEAST, _MOST = 4096, 1_000_000
"""Iterations: RFC 7677 wants as many, and a broker must not keep us busy for ever."""

Login = Generator[bytes, bytes, None]


class LoginFailed(ValueError):
    """What the broker said is not what one says who knows the password."""


def login(mechanism: str, user: str, password: str, nonce: str) -> Login:
    """Yield what to send, and take what the broker answers, until it ends; raises LoginFailed.

    ``mechanism`` is one of `MECHANISMS`; ``nonce`` is random, of printable characters without a comma.
    """
    if mechanism == "PLAIN":
        return _plain(user, password)
    return _scram(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), user, password, nonce)


def _plain(user: str, password: str) -> Login:
    yield f"\0{user}\0{password}".encode()


def _scram(digest: str, user: str, password: str, nonce: str) -> Login:
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = yield f"n,,{bare}".encode()
    said = _read(first)
    salt, rounds = _bytes(said.get("s", "")), said.get("i", "")
    both = said.get("r", "")
    if not both.startswith(nonce) or both == nonce or not salt:
        raise LoginFailed("the broker's part of the nonce or its salt is missing")
    if not rounds.isascii() or not rounds.isdigit() or not _LEAST <= int(rounds[:9]) <= _MOST:
        raise LoginFailed(f"the broker asks for {rounds[:12]!r} iterations")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, int(rounds))
    final = f"c=biws,r={both}"
    signed = b",".join((bare.encode(), first, final.encode()))
    key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    answer = _read((yield f"{final},p={base64.b64encode(proof).decode()}".encode()))
    if "e" in answer:
        raise LoginFailed(f"the broker refuses the proof: {answer['e'][:80]}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    # One that does not know the password may have let us in to hear what we ask.
    if not hmac.compare_digest(expected, _bytes(answer.get("v", ""))):
        raise LoginFailed("the broker did not prove that it knows the password")


def _read(message: bytes) -> dict[str, str]:
    """Read the attributes of a message."""
    try:
        pairs = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise LoginFailed("the broker's answer is not UTF-8") from None
    return {name: value for name, _, value in pairs}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise LoginFailed("the broker's answer is not base64") from None
