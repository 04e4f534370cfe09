from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.signed_tokens import NOW, SECRET

from distributary.auth import STACK, Authenticator, Operator
from distributary.auth.token_issuer import StackToken, create_stack_token, own_headers, sign_token
from distributary.config import Auth, Config
from distributary.errors import TokenRefused, UsageError
from distributary.store.memory_store import MemoryStore

AUTH = Auth(hmac_secret=SECRET)


def authenticator(auth: Auth, now: float | None = None) -> Authenticator:
    words: dict[str, Any] = {} if now is None else {"clock": lambda: now}
    return Authenticator(Config(auth=auth), MemoryStore().reader.revoked, **words)


@pytest.mark.parametrize(
    "auth",
    [
        AUTH,
        Auth(hmac_secret=SECRET, audience="a", issuer="i"),
        Auth(hmac_secret=SECRET, claim="https://example.com/ours"),
    ],
)
async def test_signed_token_is_accepted_with_the_same_settings(auth: Auth) -> None:
    token, claims = sign_token(auth, "ann", {"views": ["odds"], "rows": "a = 1"}, 60, NOW)
    grant = await authenticator(auth, NOW + 59).by_token(token)
    assert (grant.user, grant.views, grant.rows) == ("ann", ("odds",), (("*", "a = 1"),))
    assert claims["exp"] - claims["iat"] == 60
    with pytest.raises(TokenRefused):
        await authenticator(auth, NOW + 90).by_token(token)


def test_token_that_would_be_refused_is_not_signed() -> None:
    with pytest.raises(TokenRefused):
        sign_token(AUTH, "ann", {"rows": "a ="}, 60)
    with pytest.raises(TokenRefused):
        sign_token(AUTH, "", {}, 60)
    with pytest.raises(UsageError, match="hmac_secret is not set"):
        sign_token(Auth(), "ann", {}, 60)


async def test_own_commands_show_the_stacks_token(tmp_path: Path) -> None:
    for auth in (Auth(), AUTH):
        config = Config(data_dir=tmp_path, auth=auth)
        made = create_stack_token(tmp_path)
        assert own_headers({}, config) == {"Authorization": f"Bearer {made}"}
        shown = await Authenticator(config, MemoryStore().reader.revoked).by_headers(own_headers({}, config))
        assert shown is STACK
    assert own_headers({}) == {}


async def test_own_commands_sign_for_themselves_where_there_is_a_secret_and_no_token(tmp_path: Path) -> None:
    headers = own_headers({}, Config(data_dir=tmp_path, auth=AUTH))
    assert (await authenticator(AUTH).by_headers(headers)).operator == Operator.ADMIN
    assert own_headers({}, Config(data_dir=tmp_path)) == {}


def test_token_of_the_environment_has_priority() -> None:
    config = Config(auth=AUTH)
    assert own_headers({"DISTRIBUTARY_TOKEN": "abc\n"}, config) == {"Authorization": "Bearer abc"}
    assert own_headers({"DISTRIBUTARY_API_KEY": "abc"}, config) == {"Authorization": "ApiKey abc"}
    both = {"DISTRIBUTARY_API_KEY": "abc", "DISTRIBUTARY_TOKEN": "def"}
    assert own_headers(both) == {"Authorization": "Bearer def"}


@pytest.mark.parametrize("value", ["hun\nter2", "hun ter2", "huntér2", "hun\x00ter2"])
def test_what_is_no_word_is_told_without_repeating_it(value: str) -> None:
    with pytest.raises(UsageError, match="DISTRIBUTARY_TOKEN") as caught:
        own_headers({"DISTRIBUTARY_TOKEN": value})
    assert value not in str(caught.value)


def test_stack_token_is_created_once_and_private(tmp_path: Path) -> None:
    assert StackToken(tmp_path).read() == ""
    token = create_stack_token(tmp_path)
    assert len(token) > 40
    assert create_stack_token(tmp_path) == token
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_stack_token_created_later_is_found(tmp_path: Path) -> None:
    """A part may be started before the folder has one."""
    own = StackToken(tmp_path)
    assert not own.matches("ds_x")
    assert own.matches(create_stack_token(tmp_path))


def test_token_in_a_readable_file_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token = create_stack_token(tmp_path)
    (tmp_path / "token").chmod(0o644)
    assert not StackToken(tmp_path).matches(token)
    assert "chmod 600" in caplog.text
    assert token not in caplog.text


@given(st.text())
def test_no_text_is_the_token_of_a_folder_without_one(text: str) -> None:
    assert not StackToken(Path("/nowhere")).matches(text)
    assert not StackToken(Path("/nowhere")).matches(f"ds_{text}")


@given(st.text(st.characters(categories=("Cs", "L"))))
def test_invalid_utf8_is_refused_as_a_token(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        create_stack_token(Path(folder))
        assert not StackToken(Path(folder)).matches(f"ds_{text}")
