from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict
from tests.support.signed_tokens import NOW, SECRET, claims, ec_key, jwk, jwks, pem, rsa_key, sign

from distributary.auth import OPEN, STACK, Authenticator, Grant
from distributary.auth import authenticator as authenticator_module
from distributary.auth.api_keys import CHECK_SECONDS, create_key
from distributary.auth.authenticator import MAX_CACHED
from distributary.auth.jwt_checks import verify
from distributary.auth.revocations import token_name
from distributary.auth.token_issuer import create_stack_token
from distributary.auth.verification_keys import KeySet
from distributary.config import Auth, Config, load
from distributary.errors import (
    AccessError,
    ConfigError,
    CredentialsMissing,
    KeysUnavailable,
    TokenExpired,
    TokenRefused,
)
from distributary.store.memory_store import MemoryStore

KEY, HASH = create_key()


def basic(password: str) -> str:
    return base64.b64encode(f"somebody:{password}".encode()).decode()


class Case:
    """A authenticator over a store in memory and a key set that answers what a test says."""

    def __init__(self, auth: Auth, path: Path | None = None, *, set: bool = False) -> None:
        self.now = NOW
        self.store = MemoryStore(clock=lambda: self.now)
        self.answer: bytes | Exception = jwks()
        self.fetched = 0
        keys = KeySet(self._fetch, ttl=600, refetch=30, clock=lambda: self.now) if set else None
        self.authenticator = Authenticator(
            Config(auth=auth, path=path), self.store.reader.revoked, keys=keys, clock=lambda: self.now
        )

    async def _fetch(self) -> bytes:
        self.fetched += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def reason(self, token: str) -> str:
        with pytest.raises(TokenRefused) as caught:
            await self.authenticator.by_token(token)
        return caught.value.reason


def with_secret(**settings: Any) -> Case:
    return Case(Auth(hmac_secret=SECRET, revocation_delay=0.0, **settings))


def with_set(**settings: Any) -> Case:
    return Case(Auth(jwks_url="https://login.example.com/keys", **settings), set=True)


async def test_every_caller_is_accepted_without_settings() -> None:
    authenticator = Case(Auth()).authenticator
    assert not authenticator.on
    assert await authenticator.by_token("nonsense") is OPEN
    assert await authenticator.by_headers({}) is OPEN
    assert await authenticator.by_key("") is OPEN
    assert await authenticator.by_headers({"Authorization": "Digest x", "X-API-Key": "y"}) is OPEN
    assert await authenticator.find_ended([OPEN, Grant("ann", expires_at=1)]) == []


async def test_token_allows_what_its_claims_say() -> None:
    case = with_secret()
    grant = await case.authenticator.by_token(sign(claims(rows="country = 'DE'")))
    assert (grant.user, grant.views, grant.rows) == ("ann", ("odds",), (("*", "country = 'DE'"),))
    assert await case.reason(sign(claims(rows="country ="))) == "rows"
    assert await case.reason(sign(claims(views=7))) == "claims"
    with pytest.raises(TokenExpired):
        await case.authenticator.by_token(sign(claims(exp=1)))
    for nothing in (None, ""):
        with pytest.raises(CredentialsMissing):
            await case.authenticator.by_token(nothing)


async def test_one_of_the_settings_is_enough_to_close_the_stack(tmp_path: Path) -> None:
    (tmp_path / "login.pem").write_bytes(pem(ec_key()))
    entry = {"a": json.dumps({"hash": HASH})}
    config = tmp_path / "distributary.toml"
    for auth in (
        Auth(hmac_secret=SECRET),
        Auth(public_keys=("login.pem",)),
        Auth(jwks_url="https://login.example.com/keys"),
        Auth(keys=entry),
    ):
        case = Case(auth, config)
        assert case.authenticator.on
        with pytest.raises(CredentialsMissing):
            await case.authenticator.by_headers({})


async def test_files_of_public_keys(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_bytes(pem(ec_key()))
    (tmp_path / "b.pem").write_bytes(pem(rsa_key()))
    case = Case(Auth(public_keys=("a.pem", str(tmp_path / "b.pem"))), tmp_path / "distributary.toml")
    assert (await case.authenticator.by_token(sign(claims(), ec_key(), "ES256"))).user == "ann"
    assert (await case.authenticator.by_token(sign(claims(), rsa_key(), "RS256", kid="any"))).user == "ann"
    assert await case.reason(sign(claims(), rsa_key("other"), "RS256")) == "signature"
    assert await case.reason(sign(claims())) == "algorithm"


@pytest.mark.parametrize(("text", "said"), [(None, "No such file"), (b"x", "not a public key in PEM format")])
def test_invalid_files_are_reported(tmp_path: Path, text: bytes | None, said: str) -> None:
    if text is not None:
        (tmp_path / "a.pem").write_bytes(text)
    with pytest.raises(ConfigError, match=said):
        Case(Auth(public_keys=("a.pem",)), tmp_path / "distributary.toml")


async def test_rotated_key_is_found_and_the_old_one_is_refused() -> None:
    case = with_set()
    case.answer = jwks(jwk(rsa_key(), "old"))
    old, new = sign(claims(), rsa_key(), "RS256", kid="old"), sign(claims(), ec_key(), "ES256", kid="new")
    await case.authenticator.by_token(old)
    assert await case.reason(new) == "algorithm"
    case.answer = jwks(jwk(ec_key(), "new"))
    case.now += 30
    assert (await case.authenticator.by_token(new)).user == "ann"
    assert await case.reason(old) == "algorithm"


async def test_unknown_kid_causes_a_fetch_at_intervals_only() -> None:
    case = with_set()
    case.answer = jwks(jwk(rsa_key(), "a"))
    for n in range(20):
        assert await case.reason(sign(claims(), rsa_key(), "RS256", kid=f"made up {n}")) == "unknown-key"
    assert case.fetched == 1
    case.now += 30
    assert await case.reason(sign(claims(), rsa_key(), "RS256", kid="made up")) == "unknown-key"
    assert case.fetched == 2


async def test_wrong_signature_under_a_known_name_fetches_nothing() -> None:
    case = with_set()
    case.answer = jwks(jwk(rsa_key(), "a"))
    case.now += 100
    for _ in range(3):
        case.now += 60
        assert await case.reason(sign(claims(), rsa_key("other"), "RS256", kid="a")) == "signature"
    assert case.fetched == 1


async def test_token_without_a_kid_is_tried_with_every_key_of_the_set() -> None:
    case = with_set()
    case.answer = jwks(jwk(rsa_key("other"), "a"), jwk(rsa_key(), "b"))
    assert (await case.authenticator.by_token(sign(claims(), rsa_key(), "RS256"))).user == "ann"


async def test_url_that_does_not_respond_is_an_error() -> None:
    case = with_set()
    token = sign(claims(), rsa_key(), "RS256", kid="a")
    case.answer = OSError("refused")
    with pytest.raises(KeysUnavailable):
        await case.authenticator.by_token(token)
    case.answer = jwks(jwk(rsa_key(), "a"))
    case.now += 30
    await case.authenticator.by_token(token)
    case.answer = OSError("refused")
    case.now += 300
    assert (await case.authenticator.by_token(token)).user == "ann", "the old keys are kept"
    assert await case.reason(sign(claims(), rsa_key(), "RS256", kid="b")) == "unknown-key"


async def test_secret_beside_a_key_set_needs_no_fetch() -> None:
    case = with_set(hmac_secret=SECRET)
    case.answer = OSError("refused")
    assert (await case.authenticator.by_token(sign(claims()))).user == "ann"
    assert await case.reason(sign(claims(), "b" + SECRET)) == "signature"
    assert case.fetched == 0


async def test_invalid_token_is_refused_before_keys_are_fetched() -> None:
    case = with_set()
    assert await case.reason("abracadabra") == "malformed"
    assert await case.reason("x" * 100_000) == "too-large"
    assert case.fetched == 0


async def test_revoking_a_user_ends_what_was_issued_before() -> None:
    case = with_secret()
    before = sign(claims(iat=int(NOW) - 1))
    await case.authenticator.by_token(before)
    case.now += 0.5
    await case.store.reader.revoke("ann")
    assert await case.reason(before) == "revoked"
    assert await case.reason(sign(claims(iat=int(NOW)))) == "revoked", "of the same second, but safe"
    assert await case.reason(sign(claims(iat=None))) == "revoked", "nobody knows how old it is"
    assert (await case.authenticator.by_token(sign(claims(iat=int(NOW) + 1)))).user == "ann"
    assert (await case.authenticator.by_token(sign(claims(sub="bob", iat=int(NOW) - 1)))).user == "bob"


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
async def test_credentials_are_found_in_headers(name: str) -> None:
    case = with_secret(keys={"a": json.dumps({"hash": HASH, "views": ["odds"]})})
    token = sign(claims())
    for value in (f"Bearer {token}", f"bearer  {token} "):
        assert (await case.authenticator.by_headers(CIMultiDict({name: value}))).user == "ann"
    assert (await case.authenticator.by_headers(CIMultiDict({name: f"ApiKey {KEY}"}))).user == "key:a"
    assert (await case.authenticator.by_headers(CIMultiDict({"x-api-key": KEY}))).user == "key:a"


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"Authorization": f"Basic {KEY}"}, "malformed"),
        ({"Authorization": f"Basic {basic('nothing')}"}, "malformed"),
        ({"Authorization": f"Basic {basic(KEY + 'x')}"}, "api-key"),
        ({"Authorization": KEY}, "malformed"),
        ({"Authorization": ""}, "malformed"),
        ({"Authorization": f"ApiKey {KEY}x"}, "api-key"),
        ({"Authorization": "ApiKey"}, "api-key"),
        ({"X-API-Key": ""}, "api-key"),
        ({"X-API-Key": KEY, "Authorization": f"ApiKey {KEY}"}, "malformed"),
    ],
)
async def test_invalid_authorization_headers_are_refused(headers: dict[str, str], reason: str) -> None:
    case = with_secret(keys={"a": json.dumps({"hash": HASH})})
    with pytest.raises(TokenRefused) as caught:
        await case.authenticator.by_headers(CIMultiDict(headers))
    assert caught.value.reason == reason
    assert KEY not in str(caught.value)


async def test_revocations_of_open_connections_are_read_at_once() -> None:
    case = with_secret(leeway=10.0, keys={"a": json.dumps({"hash": HASH})})
    stays = Grant("bob", issued_at=1, expires_at=int(NOW * 1000))
    over = Grant("cid", expires_at=int(NOW * 1000) - 10_000)
    gone = Grant("ann", issued_at=int(NOW * 1000) - 1)
    await case.store.reader.revoke("ann")
    ended = await case.authenticator.find_ended([stays, over, gone, await case.authenticator.by_key(KEY)])
    assert [(grant.user, error.reason) for grant, error in ended] == [("cid", "expired"), ("ann", "revoked")]


async def test_grants_expire_while_the_store_is_down() -> None:
    case = with_secret(leeway=10.0)
    stays = Grant("bob", expires_at=int(NOW * 1000) - 9_000)
    over = Grant("cid", expires_at=int(NOW * 1000) - 10_000)
    assert [grant for grant, _ in case.authenticator.find_expired([stays, over, OPEN])] == [over]


@pytest.mark.parametrize(("left", "ttl"), [(60.0, 60), (0.2, 1), (-5.0, 1)])
def test_seconds_left_of_a_grant(left: float, ttl: int) -> None:
    case = with_secret()
    assert case.authenticator.seconds_left(Grant("ann", expires_at=int((NOW + left) * 1000))) == ttl
    assert case.authenticator.seconds_left(Grant("ann")) == 0


async def test_token_for_one_channel_allows_nothing_else() -> None:
    case = with_secret()
    token = sign(claims(channel="odds"))
    assert (await case.authenticator.by_token(token, channel="odds")).channel == "odds"
    for channel in ("", "bets"):
        with pytest.raises(TokenRefused, match="for one channel"):
            await case.authenticator.by_token(token, channel=channel)
    assert await case.reason(sign(claims(channel=["odds"]))) == "claims"
    assert (await case.authenticator.by_token(sign(claims()), channel="odds")).channel == ""


async def test_tokens_of_the_previous_secret_are_accepted() -> None:
    new, old, older = "n" * 32, SECRET, "x" * 32
    case = Case(Auth(hmac_secret=new, previous_hmac_secrets=(old,), revocation_delay=0.0))
    for secret in (new, old):
        assert (await case.authenticator.by_token(sign(claims(), secret))).user == "ann"
    assert await case.reason(sign(claims(), older)) == "signature"


async def test_token_is_refused_as_an_api_key() -> None:
    case = with_secret(keys={"a": json.dumps({"hash": HASH, "views": ["odds"]})})
    assert (await case.authenticator.by_key(KEY)).user == "key:a"
    assert await case.reason(sign(claims(sub="key:a"))) == "claims"


async def test_stacks_own_token_allows_everything_whether_permission_is_on_or_not(tmp_path: Path) -> None:
    token = create_stack_token(tmp_path)
    for auth in (Auth(), Auth(hmac_secret=SECRET)):
        authenticator = Authenticator(Config(auth=auth, data_dir=tmp_path), MemoryStore().reader.revoked)
        assert await authenticator.by_token(token) is STACK
        assert await authenticator.by_headers({"Authorization": f"Bearer {token}"}) is STACK
        assert await authenticator.find_ended([STACK]) == []
    for other in (f"{token}x", token[:-1], "ds_", ""):
        with pytest.raises(AccessError):
            await authenticator.by_token(other)


async def test_token_is_revoked_by_its_id() -> None:
    case = with_secret()
    mine, other, none = sign(claims(jti="a")), sign(claims(jti="b")), sign(claims())
    grants = [await case.authenticator.by_token(token) for token in (mine, other, none)]
    await case.store.reader.revoke(token_name("a"))
    assert await case.reason(mine) == "revoked"
    assert await case.authenticator.by_token(other) == grants[1]
    assert [grant.id for grant, _ in await case.authenticator.find_ended(grants)] == ["a"]
    # Whoever is issued another token with the same id is not let in by it, either.
    case.now += 10
    assert await case.reason(sign(claims(jti="a", iat=case.now, exp=case.now + 60))) == "revoked"


async def test_user_named_like_a_tokens_id_is_not_revoked_with_it() -> None:
    case = with_secret()
    await case.store.reader.revoke(token_name("ann"))
    assert (await case.authenticator.by_token(sign(claims(sub="ann")))).user == "ann"


async def test_api_key_expires_and_is_revoked_while_it_is_used() -> None:
    moment = datetime.fromtimestamp(NOW + 60, UTC).isoformat()
    case = with_secret(keys={"a": json.dumps({"hash": HASH, "expires": moment})})
    grant = await case.authenticator.by_key(KEY)
    assert case.authenticator.seconds_left(grant) == 60
    case.now += 61
    with pytest.raises(TokenExpired):
        await case.authenticator.by_key(KEY)
    case = with_secret(keys={"a": json.dumps({"hash": HASH})})
    grant = await case.authenticator.by_key(KEY)
    await case.store.reader.revoke("key:a")
    assert [error.reason for _, error in await case.authenticator.find_ended([grant])] == ["revoked"]
    with pytest.raises(TokenRefused, match="revoked"):
        await case.authenticator.by_key(KEY)


async def test_api_key_issued_after_a_revocation_is_accepted() -> None:
    case = with_secret(keys={"a": json.dumps({"hash": HASH, "issued": "2100-01-01"})})
    await case.store.reader.revoke("key:a")
    assert (await case.authenticator.by_key(KEY)).user == "key:a"


async def test_removed_api_key_ends_its_connections(tmp_path: Path) -> None:
    file = tmp_path / "distributary.toml"
    entry = f'[auth.keys.a]\nhash = "{HASH}"\n'
    file.write_text(f'[auth]\nhmac_secret = "{SECRET}"\n{entry}')
    authenticator = Authenticator(load(file, {}), MemoryStore().reader.revoked)
    grant = await authenticator.by_key(KEY)
    assert await authenticator.find_ended([grant]) == []
    file.write_text(f'[auth]\nhmac_secret = "{SECRET}"\n')
    authenticator._api_keys._checked -= CHECK_SECONDS
    assert [error.reason for _, error in await authenticator.find_ended([grant])] == ["api-key"]
    with pytest.raises(TokenRefused):
        await authenticator.by_key(KEY)


async def test_password_of_basic_is_a_token_or_a_key(tmp_path: Path) -> None:
    """Clients of Confluent's registry send basic.auth.user.info."""
    case = with_secret(keys={"a": json.dumps({"hash": HASH})})
    for password, user in ((KEY, "key:a"), (sign(claims()), "ann")):
        grant = await case.authenticator.by_headers({"Authorization": f"Basic {basic(password)}"})
        assert grant.user == user
    authenticator = Authenticator(Config(data_dir=tmp_path), MemoryStore().reader.revoked)
    assert (
        await authenticator.by_headers({"Authorization": f"Basic {basic(create_stack_token(tmp_path))}"})
        is STACK
    )
    assert await authenticator.by_headers({"Authorization": f"Basic {basic('whatever')}"}) is OPEN


async def test_token_is_verified_once_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    case = with_secret()
    verified: list[str] = []

    def counted(token: str, *more: Any) -> dict[str, Any]:
        verified.append(token)
        return verify(token, *more)

    monkeypatch.setattr(authenticator_module, "verify", counted)
    ann, bob = sign(claims()), sign(claims(sub="bob"))
    for _ in range(3):
        assert (await case.authenticator.by_token(ann)).user == "ann"
        assert (await case.authenticator.by_token(bob)).user == "bob"
        case.now += 0.3
    assert verified == [ann, bob]
    case.now += 0.2
    await case.authenticator.by_token(ann)
    assert verified == [ann, bob, ann]
    case.now -= 10  # the clock was put back
    await case.authenticator.by_token(ann)
    assert verified == [ann, bob, ann, ann]


async def test_cached_token_is_refused_when_it_expires() -> None:
    case = with_secret(leeway=0.0)
    token = sign(claims(exp=int(NOW) + 1))
    case.now += 0.5
    await case.authenticator.by_token(token)
    case.now += 0.6
    assert await case.reason(token) == "expired"


async def test_refused_token_is_not_cached() -> None:
    case = with_secret()
    token = sign(claims(), "x" * 40)
    for _ in range(2):
        assert await case.reason(token) == "signature"


async def test_cache_of_verified_tokens_is_bounded() -> None:
    case = with_secret()
    for number in range(MAX_CACHED + 10):
        await case.authenticator.by_token(sign(claims(sub=f"user {number}")))
    assert len(case.authenticator._verified) == MAX_CACHED
