"""Secrets in a file that others can read are found; harmless settings, and other places, are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.config import load
from distributary.config.exposed import exposed_secrets, exposed_warning

SECRETS = f"""
[store]
url = "redis://:hunter2@h"
[kafka.properties]
"security.protocol" = "SASL_SSL"
"sasl.password" = "hunter2"
"client.note" = "who knows what"
[auth]
hmac_secret = "{"hunter2" * 5}"
"""
KEYS = ("kafka.properties.sasl.password", "store.url", "auth.hmac_secret")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "distributary.toml"
    path.write_text(SECRETS)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize(("mode", "found"), [(0o644, KEYS), (0o640, KEYS), (0o604, KEYS), (0o600, ())])
def test_secrets_in_a_file_that_others_can_read_are_named(
    file: Path, mode: int, found: tuple[str, ...]
) -> None:
    file.chmod(mode)
    assert set(exposed_secrets(load(file, env={}))) == set(found)


def test_the_warning_says_what_to_do_and_no_secret(file: Path) -> None:
    warning = exposed_warning(load(file, env={}))
    assert f"chmod 600 {file}" in warning
    assert "hunter2" not in warning


def test_secrets_of_the_environment_are_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "distributary.toml"
    path.write_text('[store]\nurl = "redis://h"\n[auth]\naudience = "x"\n')
    path.chmod(0o644)
    config = load(path, env={"DISTRIBUTARY_AUTH_HMAC_SECRET": "x" * 40})
    assert exposed_warning(config) == ""


def test_there_is_no_warning_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert exposed_secrets(load(env={}, required=False)) == ()
