from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm
from tests.support.signed_tokens import SECRET, ec_key, ed_key, jwk, jwks, pem, rsa_key

from distributary.auth.verification_keys import (
    MAX_BYTES,
    MAX_KEYS,
    RETRY,
    KeySet,
    VerifyingKey,
    fetch,
    of_jwks,
    of_pem,
    of_secret,
)
from distributary.config import Auth
from distributary.errors import KeysUnavailable


def test_key_verifies_only_algorithms_of_its_type() -> None:
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
        (b"", "not a public key in PEM format"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "not a public key in PEM format"),
        (private_pem, "not a public key in PEM format"),
        (lambda: pem(rsa.generate_private_key(65537, 1024)), "1024 bits is too short"),
        (lambda: pem(ec.generate_private_key(ec.SECP256K1())), "secp256k1 is none of P-256"),
        (lambda: pem(x25519.X25519PrivateKey.generate()), "not an RSA, EC or Ed25519"),
    ],
)
def test_invalid_files_are_refused(text: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        of_pem(text() if callable(text) else text)


def test_key_set_is_read() -> None:
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
def test_unusable_keys_of_a_set_are_ignored(left_out: Any) -> None:
    found = of_jwks(jwks(left_out() if callable(left_out) else left_out, jwk(ec_key(), "b")))
    assert [key.kid for key in found] == ["b"]


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": {}}', b"\xff", b"[" * 100_000, b"null"])
def test_invalid_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a key set"):
        of_jwks(text)


def test_response_that_is_too_large_is_no_key_set() -> None:
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


def test_key_is_chosen_by_algorithm_and_name() -> None:
    key = VerifyingKey(("RS256", "PS256"), None, "a")
    assert key.fits("RS256", "a")
    assert key.fits("PS256", "a")
    assert key.fits("RS256", None)
    assert not key.fits("RS256", "b")
    assert not key.fits("HS256", "a")
    assert VerifyingKey(("RS256",), None).fits("RS256", "b")


class Address:
    """The responses to fetches, and how many fetches there were."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.text: bytes | Exception = jwks(jwk(ec_key(), "a"))
        self.asked = 0
        self.keys = KeySet(self.fetch, ttl=600, refetch=30, clock=lambda: self.now)

    async def fetch(self) -> bytes:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.text, Exception):
            raise self.text
        return self.text

    async def kids(self) -> list[str | None]:
        return [key.kid for key in await self.keys.keys()]


async def test_keys_are_fetched_once_and_again_when_their_time_is_over() -> None:
    address = Address()
    assert await address.kids() == ["a"]
    address.text = jwks(jwk(ec_key(), "b"))
    address.now += 599
    assert (await address.kids(), address.asked) == (["a"], 1)
    address.now += 1
    assert (await address.kids(), address.asked) == (["b"], 2)


async def test_concurrent_callers_share_one_fetch() -> None:
    address = Address()
    assert await asyncio.gather(*(address.kids() for _ in range(20))) == [["a"]] * 20
    assert address.asked == 1


async def test_cancelled_caller_does_not_cancel_the_fetch() -> None:
    address = Address()
    first, second = asyncio.create_task(address.kids()), asyncio.create_task(address.kids())
    await asyncio.sleep(0)
    first.cancel()
    assert await second == ["a"]


@pytest.mark.parametrize("answer", [OSError("refused"), TimeoutError(), b"<html>", b'{"keys": 7}'])
async def test_old_keys_are_kept_while_the_address_does_not_answer(
    answer: bytes | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    address = Address()
    await address.kids()
    address.text = answer
    address.now += 600
    with caplog.at_level(logging.WARNING):
        assert await address.kids() == ["a"]
    assert "using the old keys" in caplog.text
    assert (await address.kids(), address.asked) == (["a"], 2), "not asked again at once"
    address.now += 30
    assert (await address.kids(), address.asked) == (["a"], 3)


async def test_old_keys_are_refused_after_max_age() -> None:
    """One of them may have been withdrawn, and an attacker who blocks the URL must not extend its use."""
    address = Address()
    address.keys = KeySet(address.fetch, ttl=600, refetch=30, max_age=3_600, clock=lambda: address.now)
    await address.kids()
    address.text = OSError("refused")
    address.now += 3_599
    assert await address.kids() == ["a"]
    address.now += 1
    with pytest.raises(KeysUnavailable, match="too old"):
        await address.kids()
    address.text = jwks(jwk(ec_key(), "b"))
    address.now += 30
    assert await address.kids() == ["b"]


async def test_missing_keys_are_a_retryable_error() -> None:
    address = Address()
    good, address.text = address.text, OSError("refused")
    for _ in range(3):
        with pytest.raises(KeysUnavailable) as caught:
            await address.kids()
        assert caught.value.retry
    assert address.asked == 1
    address.text = good
    address.now += RETRY
    assert await address.kids() == ["a"]


async def test_unknown_keys_cause_a_fetch_at_intervals_only() -> None:
    address = Address()
    await address.kids()
    assert not await address.keys.refresh(), "it was fetched just now"
    address.text = jwks(jwk(ec_key(), "b"))
    address.now += 30
    assert await address.keys.refresh()
    assert await address.kids() == ["b"]
    for _ in range(100):
        assert not await address.keys.refresh()
    assert address.asked == 2


async def test_empty_key_set_replaces_the_old_one() -> None:
    """Somebody took all keys back: that is an answer, and not the same as none."""
    address = Address()
    await address.kids()
    address.text = jwks()
    address.now += 600
    assert await address.kids() == []


async def test_fetch_over_http() -> None:
    async def good(request: web.Request) -> web.Response:
        return web.Response(body=jwks(jwk(ec_key(), "a")))

    async def large(request: web.Request) -> web.Response:
        return web.Response(body=b" " * (MAX_BYTES + 1))

    async def elsewhere(request: web.Request) -> web.Response:
        raise web.HTTPFound("/good")

    async def slow(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    app = web.Application()
    app.add_routes(
        [web.get("/good", good), web.get("/large", large), web.get("/302", elsewhere), web.get("/slow", slow)]
    )
    async with TestServer(app) as server:
        keys = KeySet.of(Auth(jwks_url=str(server.make_url("/good"))))
        assert [key.kid for key in await keys.keys()] == ["a"]
        for path, said in (("/large", "bytes"), ("/302", "HTTP 302"), ("/none", "HTTP 404")):
            with pytest.raises(ValueError, match=said):
                await fetch(str(server.make_url(path)), 10)
        with pytest.raises(TimeoutError):
            await fetch(str(server.make_url("/slow")), 0.1)


async def test_the_log_does_not_show_the_address(caplog: pytest.LogCaptureFixture) -> None:
    keys = KeySet.of(Auth(jwks_url="http://user:hunter2@127.0.0.1:9/keys", jwks_timeout=2.0))
    with caplog.at_level(logging.DEBUG), pytest.raises(KeysUnavailable) as caught:
        await keys.keys()
    assert "cannot fetch" in caplog.text
    assert "hunter2" not in caplog.text + str(caught.value)
