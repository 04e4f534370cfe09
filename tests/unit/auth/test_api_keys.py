from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.auth import Operator
from distributary.auth.api_keys import CHECK_SECONDS, MAX_KEY, ApiKeys, create_key
from distributary.errors import ConfigError, TokenRefused


def entry(key: str, **settings: Any) -> str:
    return json.dumps({"hash": f"sha256:{hashlib.sha256(key.encode()).hexdigest()}", **settings})


def test_created_key_allows_what_its_settings_say() -> None:
    key, hash = create_key()
    other, _ = create_key()
    assert key != other
    assert key.removeprefix("dk_") not in hash
    keys = ApiKeys({"reports": json.dumps({"hash": hash, "views": ["odds"], "operator": "read"})})
    grant = keys.find(key)
    assert (grant.user, grant.views, grant.operator) == ("key:reports", ("odds",), Operator.READ)
    assert (grant.issued_at, grant.expires_at) == (None, None)
    with pytest.raises(TokenRefused) as caught:
        keys.find(other)
    assert caught.value.reason == "api-key"
    assert other not in str(caught.value)


def test_alarms_of_each_subject_are_separate() -> None:
    keys = ApiKeys({"a": entry("one", views=["x"]), "b": entry("two")}, default_views="all")
    assert keys.find("one").views == ("x",)
    assert keys.find("two").views == ("*",)


@given(st.text())
def test_no_other_string_matches_a_key(text: str) -> None:
    keys = ApiKeys({"a": entry("a key that nobody guesses")})
    with pytest.raises(TokenRefused):
        keys.find(text)


def test_longer_string_does_not_match_a_key() -> None:
    keys = ApiKeys({"a": entry("k" * MAX_KEY)})
    assert keys.find("k" * MAX_KEY)
    with pytest.raises(TokenRefused):
        keys.find("k" * MAX_KEY + "x")


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("a", {"veiws": ["odds"]}, 'auth.keys.a.veiws: unknown field. Did you mean "views"?'),
        ("a", {"sub": "ann"}, "auth.keys.a.sub: unknown field"),
        ("a", {"views": 7}, 'auth.keys.a: "views" is invalid'),
        ("a", {"rows": "a ="}, "auth.keys.a: the row filter"),
        ("A b", {}, "auth.keys.A b: invalid name"),
        ("a", {"user": "B c"}, "auth.keys.a.user: invalid name"),
        ("a", {"expires": "tomorrow"}, "auth.keys.a.expires: invalid time"),
        ("a", {"issued": 7}, "auth.keys.a.issued: invalid time"),
        ("a", {"admin": True}, "auth.keys.a.admin: unknown field"),
    ],
)
def test_invalid_settings_of_a_key_are_refused(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ApiKeys({name: entry("key", **settings)})
    assert str(caught.value).startswith(said)


def test_two_keys_may_have_the_same_user() -> None:
    keys = ApiKeys({"a": entry("old", views=["x"]), "a-2": entry("new", views=["x"], user="a")})
    assert keys.find("old") == keys.find("new")
    with pytest.raises(ConfigError, match="the same hash"):
        ApiKeys({"a": entry("one"), "b": entry("one")})


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2027-01-31", 1_801_353_600_000),
        ("2027-01-31T12:00:00Z", 1_801_396_800_000),
        ("2027-01-31T12:00:00+01:00", 1_801_393_200_000),
    ],
)
def test_times_of_a_key_are_read(text: str, moment: int) -> None:
    grant = ApiKeys({"a": entry("one", expires=text, issued=text)}).find("one")
    assert (grant.expires_at, grant.issued_at) == (moment, moment)


def test_keys_are_read_again_when_the_file_changes(tmp_path: Path) -> None:
    file, now = tmp_path / "d.toml", 0.0

    def write(**keys: str) -> None:
        lines = (f'{name} = {{ hash = "{json.loads(entry(key))["hash"]}" }}' for name, key in keys.items())
        file.write_text("\n".join(["[auth.keys]", *lines]))

    write(a="one")
    keys = ApiKeys({"a": entry("one")}, file=file, clock=lambda: now)
    first = keys.find("one")
    write(a="one", b="number two")
    with pytest.raises(TokenRefused):
        keys.find("number two")  # not yet looked
    now += CHECK_SECONDS
    assert keys.find("number two").user == "key:b"
    assert keys.is_current(first)
    write(b="number two")
    now += CHECK_SECONDS
    assert not keys.is_current(first)


def test_invalid_file_leaves_the_keys_unchanged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, now = tmp_path / "d.toml", 0.0
    file.write_text("")
    keys = ApiKeys({"a": entry("one")}, file=file, clock=lambda: now)
    file.write_text("[auth.keys]\na = 7 # half written")
    now += CHECK_SECONDS
    assert keys.find("one").user == "key:a"
    assert "stay unchanged" in caplog.text
    assert "one" not in caplog.text


@given(st.text(st.characters(categories=("Cs", "L"))))
def test_invalid_utf8_matches_no_key(text: str) -> None:
    """A header's bytes that are not UTF-8 come as surrogates."""
    keys = ApiKeys({"a": entry("a key that nobody guesses")})
    with pytest.raises(TokenRefused):
        keys.find(text)
