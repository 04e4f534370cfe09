from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.signed_tokens import (
    NOW,
    SECRET,
    claims,
    ec_key,
    ed_key,
    forged,
    pem,
    rsa_key,
    segment,
    sign,
)

from distributary.auth.jwt_checks import MAX_TOKEN, REASONS, Rules, check_times, read_header, verify
from distributary.auth.verification_keys import VerifyingKey, of_pem, of_secret
from distributary.config import Auth
from distributary.errors import TokenExpired, TokenRefused

P384, P521 = ec.SECP384R1(), ec.SECP521R1()
RULES = Rules(audience="distributary", issuer="https://login.example.com/", leeway=30)
GOOD = claims(aud="distributary", iss="https://login.example.com/")


def keys() -> list[VerifyingKey]:
    made = (rsa_key(), ec_key(), ec_key(curve=P384), ec_key(curve=P521), ed_key())
    return [of_secret(SECRET), *(of_pem(pem(key)) for key in made)]


def refused(token: str, reason: str, rules: Rules = RULES, known: list[VerifyingKey] | None = None) -> str:
    """Check that a token is refused for the reason, and that nothing of it is repeated."""
    with pytest.raises(TokenRefused) as caught:
        verify(token, keys() if known is None else known, rules, NOW)
    assert caught.value.reason == reason
    assert reason in REASONS
    said = f"{caught.value} {caught.value!r}"
    assert SECRET not in said
    assert not token or len(token) < 4 or token not in said
    assert all(len(part) < 8 or part not in said for part in token.split("."))
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (SECRET, "HS256"),
        *((rsa_key, f"{kind}{bits}") for kind in ("RS", "PS") for bits in (256, 384, 512)),
        (ec_key, "ES256"),
        (lambda: ec_key(curve=P384), "ES384"),
        (lambda: ec_key(curve=P521), "ES512"),
        (ed_key, "EdDSA"),
    ],
    ids=str,
)
def test_token_of_each_algorithm_is_verified(key: Any, algorithm: str) -> None:
    made = sign(GOOD, key() if callable(key) else key, algorithm)
    assert verify(made, keys(), RULES, NOW) == GOOD


def test_longer_secret_is_accepted_for_longer_hashes() -> None:
    for algorithm in ("HS256", "HS384", "HS512"):
        assert verify(sign(GOOD, SECRET * 2, algorithm), [of_secret(SECRET * 2)], RULES, NOW) == GOOD


def changed(**changes: Any) -> str:
    return sign({name: value for name, value in (GOOD | changes).items() if value is not None})


def secp256k1() -> Any:
    return ec.generate_private_key(ec.SECP256K1())


def tampered() -> str:
    """The payload of another token under the signature of a good one."""
    head, _, signature = changed().split(".")
    return f"{head}.{segment(GOOD | {'sub': 'admin', 'admin': True})}.{signature}"


HS256 = {"alg": "HS256", "typ": "JWT"}

ATTACKS: dict[str, tuple[Callable[[], str], str]] = {
    "no signature, alg none": (lambda: forged({"alg": "none"}, GOOD), "algorithm"),
    "alg None in other letters": (lambda: forged({"alg": "NoNe"}, GOOD), "algorithm"),
    "no alg at all": (lambda: forged({"typ": "JWT"}, GOOD), "algorithm"),
    "alg that is no text": (lambda: forged({"alg": ["HS256"]}, GOOD), "algorithm"),
    "an algorithm that is not taken": (lambda: sign(GOOD, secp256k1(), "ES256K"), "algorithm"),
    "HS512 with a secret too short for it": (lambda: sign(GOOD, SECRET * 2, "HS512"), "algorithm"),
    "another key of its curve": (lambda: sign(GOOD, ec_key("other", P384), "ES384"), "signature"),
    "another Ed25519 key": (lambda: sign(GOOD, ed_key("other"), "EdDSA"), "signature"),
    "HS256 with the RSA public key": (lambda: forged(HS256, GOOD, pem(rsa_key())), "signature"),
    "HS256 with the EC public key": (lambda: forged(HS256, GOOD, pem(ec_key())), "signature"),
    "HS256 with an empty secret": (lambda: forged(HS256, GOOD, b""), "signature"),
    "an empty signature": (lambda: forged(HS256, GOOD), "signature"),
    "another secret": (lambda: sign(GOOD, "b" + SECRET), "signature"),
    "another RSA key": (lambda: sign(GOOD, rsa_key("other"), "RS256"), "signature"),
    "another EC key": (lambda: sign(GOOD, ec_key("other"), "ES256"), "signature"),
    "a tampered payload": (tampered, "signature"),
    "a key of its own in the header": (
        lambda: sign(GOOD, rsa_key("other"), "RS256", jwk={"kty": "RSA"}, jku="https://evil.example.com"),
        "signature",
    ),
    "an extension that must be understood": (lambda: sign(GOOD, crit=["x"], x=1), "malformed"),
    "an extension that the library knows": (
        lambda: forged(HS256 | {"b64": True, "crit": ["b64"]}, GOOD, SECRET.encode()),
        "malformed",
    ),
    "a payload that is not encoded": (lambda: forged(HS256 | {"b64": False}, GOOD), "malformed"),
    "a kid that is no text": (lambda: forged(HS256 | {"kid": 1}, GOOD), "malformed"),
    "wrong audience": (lambda: changed(aud="another"), "audience"),
    "audiences without ours": (lambda: changed(aud=["a", "b"]), "audience"),
    "an audience that holds ours": (lambda: changed(aud="distributary-too"), "audience"),
    "an audience that is no text": (lambda: changed(aud={"distributary": 1}), "audience"),
    "no audience": (lambda: changed(aud=None), "audience"),
    "wrong issuer": (lambda: changed(iss="https://evil.example.com/"), "issuer"),
    "no issuer": (lambda: changed(iss=None), "issuer"),
    "expired": (lambda: changed(exp=int(NOW) - 31), "expired"),
    "expired by its grace exactly": (lambda: changed(exp=int(NOW) - 30), "expired"),
    "no exp": (lambda: changed(exp=None), "no-expiry"),
    "exp that is a text": (lambda: changed(exp=str(int(NOW) + 600)), "malformed"),
    "exp that is true": (lambda: changed(exp=True), "malformed"),
    "exp without end": (lambda: forged(HS256, GOOD | {"exp": float("inf")}, SECRET.encode()), "malformed"),
    "exp that is no number": (
        lambda: forged(HS256, GOOD | {"exp": float("nan")}, SECRET.encode()),
        "malformed",
    ),
    "exp of a thousand digits": (lambda: changed(exp=10**1000), "malformed"),
    "not yet": (lambda: changed(nbf=int(NOW) + 31), "not-yet"),
    "issued in the future": (lambda: changed(iat=int(NOW) + 31), "issued-ahead"),
    "huge": (lambda: changed(more="x" * MAX_TOKEN), "too-large"),
    "huge and no token": (lambda: "." * 10_000_000, "too-large"),
    "nothing": (lambda: "", "malformed"),
    "a word": (lambda: "abracadabra", "malformed"),
    "two parts": (lambda: changed().rpartition(".")[0], "malformed"),
    "four parts": (lambda: changed() + ".x", "malformed"),
    "claims that are a list": (lambda: forged(HS256, [GOOD], SECRET.encode()), "malformed"),
    "claims that are not JSON": (lambda: forged(HS256, b"{", SECRET.encode()), "malformed"),
    "claims that are not UTF-8": (lambda: forged(HS256, b'{"a": "\xff"}', SECRET.encode()), "malformed"),
    "claims nested deeply": (lambda: forged(HS256, b"[" * 5000, SECRET.encode()), "malformed"),
    "a header nested deeply": (lambda: f"{segment(b'[' * 5000)}.e30.e30", "malformed"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused_with_their_reason(name: str) -> None:
    make, reason = ATTACKS[name]
    refused(make(), reason)


def test_expired_token_has_its_own_error() -> None:
    with pytest.raises(TokenExpired) as caught:
        verify(changed(exp=1), keys(), RULES, NOW)
    assert (caught.value.code, caught.value.reason) == ("token-expired", "expired")


def test_kid_chooses_the_key_of_that_name() -> None:
    named = [replace(of_pem(pem(rsa_key())), kid="a"), replace(of_pem(pem(rsa_key("other"))), kid="b")]
    for kid, key in (("a", rsa_key()), ("b", rsa_key("other"))):
        assert verify(sign(GOOD, key, "RS256", kid=kid), named, RULES, NOW) == GOOD
    refused(sign(GOOD, rsa_key(), "RS256", kid="b"), "signature", known=named)
    refused(sign(GOOD, rsa_key(), "RS256", kid="c"), "unknown-key", known=named)
    assert verify(sign(GOOD, rsa_key("other"), "RS256"), named, RULES, NOW) == GOOD


def test_algorithm_without_a_key_is_refused() -> None:
    refused(sign(GOOD), "algorithm", known=[of_pem(pem(rsa_key()))])
    refused(sign(GOOD, rsa_key(), "RS256"), "algorithm", known=[of_secret(SECRET)])
    refused(sign(GOOD), "algorithm", known=[])


def test_expiry_is_optional_by_setting() -> None:
    free = Rules.of(Auth(require_expiry=False, leeway=0.0))
    body = {"sub": "ann"}
    assert verify(sign(body), keys(), free, NOW) == body
    refused(sign(body | {"aud": "somebody"}), "audience", rules=free)
    assert verify(sign(body | {"iss": "anybody"}), keys(), free, NOW)
    assert verify(changed(aud=["a", "distributary"]), keys(), RULES, NOW)


def test_header_is_parsed_without_verification() -> None:
    assert read_header(sign(GOOD, kid="a")).kid == "a"
    assert read_header(forged(HS256, GOOD)).algorithm == "HS256"


times = st.integers(-100, 100)


@given(times, times | st.none(), times | st.none(), times | st.none(), st.integers(0, 20), st.booleans())
def test_times_of_a_token_are_checked(
    now: int, exp: int | None, nbf: int | None, iat: int | None, leeway: int, required: bool
) -> None:
    body = {name: value for name, value in (("exp", exp), ("nbf", nbf), ("iat", iat)) if value is not None}
    counts = (
        (now < exp + leeway if exp is not None else not required)
        and (nbf is None or now >= nbf - leeway)
        and (iat is None or now >= iat - leeway)
    )
    rules = Rules(leeway=leeway, require_expiry=required)
    if counts:
        check_times(body, rules, now)
    else:
        with pytest.raises(TokenRefused):
            check_times(body, rules, now)


@pytest.mark.parametrize(
    ("claims", "counts"),
    [
        ({"iat": 100, "exp": 160}, True),
        ({"iat": 100, "exp": 161}, False),
        ({"exp": 160}, False),
        ({"iat": 100}, False),
    ],
)
def test_token_with_a_longer_life_than_allowed_is_refused(claims: dict[str, int], counts: bool) -> None:
    rules = Rules.of(Auth(max_token_age=60.0, require_expiry=False))
    if counts:
        return check_times(claims, rules, 120)
    with pytest.raises(TokenRefused) as caught:
        check_times(claims, rules, 120)
    assert caught.value.reason == "too-long"
    check_times(claims, Rules.of(Auth(require_expiry=False)), 120)
    return None


@given(st.text() | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_any_string_is_refused_as_a_token(text: str) -> None:
    with pytest.raises(TokenRefused):
        verify(text, keys(), RULES, NOW)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["alg", "kid", "typ", "crit", "b64", "exp", "nbf", "iat", "aud", "iss", "sub"])


@given(st.dictionaries(names, json_values), st.dictionaries(names, json_values))
def test_any_header_and_claims_give_claims_or_a_refusal(header: dict[str, Any], body: dict[str, Any]) -> None:
    token = forged({"alg": "HS256"} | header, body, SECRET.encode())
    try:
        found = verify(token, keys(), RULES, NOW)
    except TokenRefused:
        return
    assert json.dumps(found) == json.dumps(body)
    assert found["exp"] > NOW - 30


@given(st.data())
def test_token_with_a_changed_character_is_refused(data: st.DataObject) -> None:
    token = changed()
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("AZaz09-_."))
    try:
        found = verify(token[:place] + letter + token[place + 1 :], keys(), RULES, NOW)
    except TokenRefused:
        return
    assert found == GOOD  # the last letter of base64 has bits that mean nothing
