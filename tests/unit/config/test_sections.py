from __future__ import annotations

from collections.abc import Callable

import pytest

from distributary.config import Auth, Config

HASH = "sha256:" + "0123456789abcdef" * 4
SECRET = "hunter2 hunter2 hunter2 hunter2 hunter2"


def test_auth_section_is_loaded(load_text: Callable[..., Config]) -> None:
    text = f"""[auth]
hmac_secret = "{SECRET}"
public_keys = ["a.pem"]
leeway = "5 s"
[auth.keys.reports]
hash = "{HASH}"
views = ["odds"]
rows = {{ odds = "a = 1" }}
[auth.keys]
"other.one" = {{ hash = "{HASH}", admin = true }}
"""
    auth = load_text(text).auth
    assert (auth.hmac_secret, auth.public_keys, auth.leeway) == (SECRET, ("a.pem",), 5.0)
    assert auth.keys == {
        "reports": f'{{"hash": "{HASH}", "views": ["odds"], "rows": {{"odds": "a = 1"}}}}',
        "other.one": f'{{"hash": "{HASH}", "admin": true}}',
    }


def test_api_keys_from_the_environment_are_added(load_text: Callable[..., Config]) -> None:
    text = f'[auth.keys.a]\nhash = "{HASH}"\n'
    auth = load_text(text, {"DISTRIBUTARY_AUTH_KEYS": f'{{"b": {{"hash": "{HASH}"}}}}'}).auth
    assert set(auth.keys) == {"a", "b"}


def test_hmac_secret_is_never_printed(load_text: Callable[..., Config]) -> None:
    config = load_text(f'[auth]\nhmac_secret = "{SECRET}"\n')
    message = f"{config!r} {config.effective()}"
    assert "hunter2" not in message
    assert "'***'" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('hmac_secret = "hunter2"', "2: auth.hmac_secret: expected at least 32 bytes"),
        ("hmac_secret = 7", "2: auth.hmac_secret: expected a string, got a int"),
        (
            'hmac_secret = "-----BEGIN PUBLIC KEY----- hunter2 hunter2 hunter2"',
            "2: auth.hmac_secret: expected a secret, not a PEM key",
        ),
        ('jwks_url = "http://login.example.com"', "2: auth.jwks_url: expected a URL such as https"),
        ('jwks_url = "file:///etc/passwd"', "2: auth.jwks_url: expected a URL"),
        ('jwks_url = "https://u:hunter2@h:port"', "2: auth.jwks_url: expected a URL"),
        ('default_views = "some"', "2: auth.default_views: expected one of none, all"),
        ("keys = { a = 7 }", '2: auth.keys.a: expected a table such as { hash = "sha256:…"'),
        ("keys = { a = {} }", '2: auth.keys.a: expected hash = "sha256:" and 64 digits'),
        ('keys = { a = { hash = "hunter2" } }', '2: auth.keys.a: expected hash = "sha256:"'),
        (
            f'keys = {{ a = {{ hash = "{HASH}", key = "dk_hunter2hunter2hunter2" }} }}',
            "2: auth.keys.a: expected the hash of a key, not the key itself",
        ),
        (
            f'keys = {{ a = {{ hash = "{HASH}", until = 12:00:00 }} }}',
            "2: auth.keys.a: expected strings, numbers",
        ),
    ],
)
def test_errors_of_the_auth_section_hide_secrets(
    refuse_text: Callable[..., list[str]], text: str, message: str
) -> None:
    (line,) = refuse_text(f"[auth]\n{text}\n")
    assert line.startswith(f"distributary.toml:{message}")
    assert "hunter2" not in line


def test_jwks_url_of_this_machine_may_be_http(load_text: Callable[..., Config]) -> None:
    for url in ("http://127.0.0.1:9/keys", "http://localhost/keys", "https://login.example.com/keys"):
        assert load_text(f'[auth]\njwks_url = "{url}"\n').auth.on


def test_auth_is_off_without_secrets_and_keys() -> None:
    assert not Auth().on
    assert not Auth(audience="a", issuer="b", default_views="all").on
    assert Auth(keys={"a": "{}"}).on
