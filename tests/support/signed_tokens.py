"""Keys and tokens for the tests: signed as an issuer would, or as somebody would who is none."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

SECRET = "a secret of the tests, long enough for HS256"
NOW = 1_800_000_000.0


@functools.cache
def rsa_key(name: str = "first", bits: int = 2048) -> rsa.RSAPrivateKey:
    """A private key, the same for the same name."""
    return rsa.generate_private_key(65537, bits)


@functools.cache
def ec_key(name: str = "first", curve: ec.EllipticCurve | None = None) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve or ec.SECP256R1())


@functools.cache
def ed_key(name: str = "first") -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def pem(key: Any) -> bytes:
    """The public half of a key, as in a file."""
    text: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return text


def jwk(key: Any, kid: str | None = None, **more: Any) -> dict[str, Any]:
    """The public half of a key, as in a key set."""
    kind: Any = ECAlgorithm
    if isinstance(key, rsa.RSAPrivateKey):
        kind = RSAAlgorithm
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        kind = OKPAlgorithm
    words: dict[str, Any] = kind.to_jwk(key.public_key(), as_dict=True)
    words.pop("key_ops", None)
    return words | ({"kid": kid} if kid else {}) | more


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def claims(**changes: Any) -> dict[str, Any]:
    """Claims that are good at NOW, changed; None takes one out."""
    usual = {"sub": "ann", "iat": int(NOW) - 60, "exp": int(NOW) + 600, "views": ["odds"]}
    return {name: value for name, value in (usual | changes).items() if value is not None}


def sign(body: dict[str, Any], key: Any = SECRET, algorithm: str = "HS256", **header: Any) -> str:
    return jwt.encode(body, key, algorithm=algorithm, headers=header or None)


def segment(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def forged(header: dict[str, Any], body: Any, key: bytes | None = None) -> str:
    """A token that no library would make: signed by HMAC with any bytes, or not at all."""
    text = f"{segment(header)}.{segment(body)}"
    made = hmac.new(key, text.encode(), hashlib.sha256).digest() if key is not None else b""
    return f"{text}.{segment(made)}"
