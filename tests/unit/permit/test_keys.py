from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import ConfigError, TokenRefused
from distributary.permit.keys import MAX_KEY, ApiKeys, make_key


def entry(key: str, **settings: Any) -> str:
    return json.dumps({"hash": f"sha256:{hashlib.sha256(key.encode()).hexdigest()}", **settings})


def test_a_made_key_opens_what_its_settings_say() -> None:
    key, hash = make_key()
    other, _ = make_key()
    assert key != other
    assert key.removeprefix("dk_") not in hash
    keys = ApiKeys({"reports": json.dumps({"hash": hash, "views": ["odds"], "monitor": True})})
    grant = keys.find(key)
    assert (grant.user, grant.views, grant.monitor, grant.admin) == ("key:reports", ("odds",), True, False)
    assert not grant.revocable
    with pytest.raises(TokenRefused) as caught:
        keys.find(other)
    assert caught.value.reason == "api-key"
    assert other not in str(caught.value)


def test_each_key_has_its_own() -> None:
    keys = ApiKeys({"a": entry("one", views=["x"]), "b": entry("two")}, default_views="all")
    assert keys.find("one").views == ("x",)
    assert keys.find("two").views == ("*",)


@given(st.text())
def test_no_text_is_a_key_by_chance(text: str) -> None:
    keys = ApiKeys({"a": entry("a key that nobody guesses")})
    with pytest.raises(TokenRefused):
        keys.find(text)


def test_a_longer_text_is_not_cut_to_a_key() -> None:
    keys = ApiKeys({"a": entry("k" * MAX_KEY)})
    assert keys.find("k" * MAX_KEY)
    with pytest.raises(TokenRefused):
        keys.find("k" * MAX_KEY + "x")


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("a", {"veiws": ["odds"]}, 'permit.keys.a.veiws: unknown key. Did you mean "views"?'),
        ("a", {"sub": "ann"}, "permit.keys.a.sub: unknown key"),
        ("a", {"views": 7}, 'permit.keys.a: "views" cannot be read'),
        ("a", {"rows": "a ="}, "permit.keys.a: the filter of rows"),
        ("A b", {}, "permit.keys.A b: not a name"),
    ],
)
def test_settings_that_cannot_be_used_are_told(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ApiKeys({name: entry("key", **settings)})
    assert str(caught.value).startswith(said)
