from __future__ import annotations

import io
import json
import re
import tomllib
from pathlib import Path

import pytest
from tests.support.threaded_api import ThreadedApi

from distributary.auth import Operator
from distributary.auth.api_keys import ApiKeys
from distributary.auth.revocations import token_name
from distributary.cli.main import main
from distributary.config import load

SECRET = "hunter2 hunter2 hunter2 hunter2 hunter2"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISTRIBUTARY_AUTH_HMAC_SECRET", SECRET)


def make(capsys: Capture, *words: str) -> str:
    assert main(["token", "create", "--user", "ann", *words]) == 0
    return capsys.readouterr().out.strip()


def test_created_token_is_shown_as_valid(capsys: Capture) -> None:
    token = make(capsys, "--views", "odds, bets-*", "--rows", "country = 'DE'", "--for", "2 minutes")
    assert main(["token", "show", token]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"valid +yes", printed)
    assert re.search(r"allows views +odds, bets-\*", printed)
    assert re.search(r"rows of \* +country = 'DE'", printed)
    assert "hunter2" not in printed
    assert token not in printed


def test_token_is_created_and_shown_as_json(capsys: Capture) -> None:
    created = json.loads(
        make(capsys, "--json", "--operator", "admin", "--publish", "actions", "--columns", "a,b.c")
    )
    assert main(["token", "show", created["token"], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["verified"], shown["error"], shown["claims"]) == (True, None, created["claims"])
    assert (shown["grant"]["operator"], shown["grant"]["publish"]) == ("admin", ["actions"])
    assert shown["grant"]["columns"] == {"*": {"a": None, "b": {"c": None}}}


def test_invalid_token_is_shown_with_the_reason(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    token = make(capsys, "--for", "1h")
    monkeypatch.setenv("DISTRIBUTARY_AUTH_HMAC_SECRET", "another " + SECRET)
    monkeypatch.setattr("sys.stdin", io.StringIO(token + "\n"))
    assert main(["token", "show", "-"]) == 1
    printed = capsys.readouterr().out
    assert "no, signature: the token's signature is invalid" in printed
    assert 'claims.sub  "ann"' in printed
    assert main(["token", "show", "abracadabra", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["verified"], shown["error"]["reason"], shown["claims"]) == (False, "malformed", None)


@pytest.mark.parametrize("text", ["", ".", "..", "e30.e30.e30", "eyJhbGciOiJIUzI1NiJ9.W10.x", "\ud800", "é"])
def test_show_accepts_any_string(capsys: Capture, text: str) -> None:
    assert main(["token", "show", text]) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "status", "printed"),
    [
        (["create"], 2, "--user"),
        (
            ["create", "--user", "ann", "--rows", "a ="],
            2,
            "a server would refuse this token: the row filter",
        ),
        (["create", "--user", "ann", "--views", "Odds!"], 2, 'a server would refuse this token: "views"'),
        (["create", "--user", "ann", "--for", "soon"], 2, "--for soon: expected a duration"),
        (["create", "--user", "ann", "--for", "0"], 2, "--for 0: too short"),
        (["key", "Reports!"], 2, "auth.keys.Reports!: invalid name"),
        (["key", "a", "--rows", "a ="], 2, "auth.keys.a: the row filter"),
        ([], 2, "ACTION"),
    ],
)
def test_wrong_command_line_is_refused(capsys: Capture, words: list[str], status: int, printed: str) -> None:
    assert main(["token", *words]) == status
    assert printed in capsys.readouterr().err


def test_create_requires_a_secret(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISTRIBUTARY_AUTH_HMAC_SECRET")
    assert main(["token", "create", "--user", "ann"]) == 2
    assert "auth.hmac_secret is not set" in capsys.readouterr().err
    assert main(["token", "show", "x"]) == 2
    assert "[auth] is empty" in capsys.readouterr().err


def test_key_is_printed_with_its_configuration(capsys: Capture, tmp_path: Path) -> None:
    words = ["token", "key", "reports", "--views", "odds", "--rows", "name = 'a \"b\"'"]
    words += ["--operator", "read", "--expires", "2100-01-31"]
    assert main(words) == 0
    lines, _, rest = capsys.readouterr().out.partition("\n\n")
    key = rest.split()[-1]
    assert key not in lines
    tomllib.loads(lines)
    (tmp_path / "distributary.toml").write_text(lines)
    grant = ApiKeys(load(env={}).auth.keys).find(key)
    assert (grant.views, grant.rows) == (("odds",), (("*", "name = 'a \"b\"'"),))
    assert (grant.operator, grant.expires_at) == (Operator.READ, 4_105_036_800_000)
    assert grant.issued_at is not None


def test_key_is_printed_as_json(capsys: Capture) -> None:
    assert main(["token", "key", "reports", "--json"]) == 0
    created = json.loads(capsys.readouterr().out)
    assert (
        ApiKeys({created["name"]: json.dumps(created["settings"])}).find(created["key"]).user == "key:reports"
    )


def test_tokens_of_a_user_are_revoked(control: ThreadedApi, capsys: Capture) -> None:
    assert main(["token", "revoke", "ann/b"]) == 0
    assert "ann/b: tokens issued before" in capsys.readouterr().out
    assert set(control.api.store.revoked) == {"ann/b"}
    assert main(["token", "revoke", "bob", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["user"] == "bob"


def test_token_is_revoked_by_its_id(control: ThreadedApi, capsys: Capture) -> None:
    assert main(["token", "revoke", "--id", "4f/1c"]) == 0
    assert "token 4f/1c: revoked" in capsys.readouterr().out
    assert set(control.api.store.revoked) == {token_name("4f/1c")}
    for words in ([], ["ann", "--id", "4f"]):
        assert main(["token", "revoke", *words]) == 2
        assert "name a user, or a token" in capsys.readouterr().err
