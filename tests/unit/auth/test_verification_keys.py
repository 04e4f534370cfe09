from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm
from tests.support.signed_tokens import SECRET, ec_key, ed_key, jwk, jwks, pem, rsa_key

from distributary.auth.verification_keys import MAX_KEYS, VerifyingKey, of_jwks, of_pem, of_secret


def test_a_key_is_bound_to_what_it_is_for() -> None:
    assert of_secret("x" * 47).algorithms == ("HS256",)
    assert of_secret("x" * 48).algorithms == ("HS256", "HS384")
    assert of_secret("x" * 64).algorithms == ("HS256", "HS384", "HS512")
    assert of_pem(pem(rsa_key())).algorithms == ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
    assert of_pem(pem(ec_key())).algorithms == ("ES256",)
    assert of_pem(pem(ec.generate_private_key(ec.SECP384R1()))).algorithms == ("ES384",)
    assert of_pem(pem(ec.generate_private_key(ec.SECP521R1()))).algorithms == ("ES512",)
    assert of_pem(pem(ed_key())).algorithms == ("EdDSA",)


def private_pem() -> bytes:
    return rsa_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not the PEM text"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "not the PEM text"),
        (private_pem, "not the PEM text"),
        (lambda: pem(rsa.generate_private_key(65537, 1024)), "1024 bits is too short"),
        (lambda: pem(ec.generate_private_key(ec.SECP256K1())), "secp256k1 is none of P-256"),
        (lambda: pem(x25519.X25519PrivateKey.generate()), "no RSA, EC or Ed25519"),
    ],
)
def test_files_that_are_of_no_use(text: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        of_pem(text() if callable(text) else text)


def test_a_key_set_is_read() -> None:
    found = of_jwks(
        jwks(
            jwk(rsa_key(), "a", use="sig", alg="RS256"),
            jwk(ec_key(), "b"),
            jwk(rsa_key(), alg="PS512"),
            jwk(ed_key(), "c", alg="EdDSA"),
        )
    )
    assert [(key.algorithms, key.kid) for key in found] == [
        (("RS256",), "a"),
        (("ES256",), "b"),
        (("PS512",), None),
        (("EdDSA",), "c"),
    ]


SHARED = {"kty": "oct", "kid": "s", "k": base64.urlsafe_b64encode(b"x" * 32).decode()}


@pytest.mark.parametrize(
    "left_out",
    [
        SHARED,
        SHARED | {"alg": "HS256"},
        7,
        {},
        {"kty": "RSA"},
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": "A" * 43},
        {"kty": "OKP", "crv": "Ed448", "x": "A" * 76},
        {"kty": "OKP", "crv": "Ed25519", "x": "A"},
        lambda: RSAAlgorithm.to_jwk(rsa_key(), as_dict=True),
        lambda: jwk(rsa_key(), "a", use="enc"),
        lambda: jwk(rsa_key(), "a", key_ops=["encrypt"]),
        lambda: jwk(rsa_key(), "a", key_ops=7),
        lambda: jwk(rsa_key(), "a", alg="HS256"),
        lambda: jwk(rsa_key(), "a", alg="ES256"),
        lambda: jwk(ec_key(), "a", alg="ES384"),
        lambda: jwk(rsa_key(), "a", alg=["RS256"]),
        lambda: jwk(rsa_key(), kid=None) | {"kid": 7},
        lambda: jwk(rsa.generate_private_key(65537, 1024), "a"),
        lambda: jwk(ec.generate_private_key(ec.SECP256K1()), "a"),
    ],
)
def test_keys_of_no_use_are_left_out_and_the_rest_counts(left_out: Any) -> None:
    found = of_jwks(jwks(left_out() if callable(left_out) else left_out, jwk(ec_key(), "b")))
    assert [key.kid for key in found] == ["b"]


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": {}}', b"\xff", b"[" * 100_000, b"null"])
def test_what_is_no_key_set(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a key set"):
        of_jwks(text)


def test_a_key_set_is_not_read_without_end() -> None:
    assert len(of_jwks(jwks(*[jwk(ec_key(), "b")] * (MAX_KEYS + 5)))) == MAX_KEYS


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_any_json_is_a_key_set_or_a_value_error(value: Any) -> None:
    for document in (value, {"keys": value}, {"keys": [value]}, {"keys": [{"kty": "RSA", "n": value}]}):
        with contextlib.suppress(ValueError):
            assert of_jwks(json.dumps(document).encode()) == ()


def test_no_key_is_printed() -> None:
    assert SECRET not in repr(of_secret(SECRET))


def test_a_key_fits_by_algorithm_and_name() -> None:
    key = VerifyingKey(("RS256", "PS256"), None, "a")
    assert key.fits("RS256", "a")
    assert key.fits("PS256", "a")
    assert key.fits("RS256", None)
    assert not key.fits("RS256", "b")
    assert not key.fits("HS256", "a")
    assert VerifyingKey(("RS256",), None).fits("RS256", "b")
