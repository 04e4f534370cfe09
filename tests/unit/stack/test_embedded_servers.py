"""The passwords of a secure embedded Kafka, and the user that each component logs in as."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.config.embedded_defaults import SUPER_USER, kafka_secret
from distributary.stack.embedded_servers import component_login, make_logins, users


def test_passwords_are_created_once_and_removed_without_authentication(tmp_path: Path) -> None:
    make_logins(tmp_path, secure=True)
    files = {user: kafka_secret(tmp_path, user) for user in users()}
    first = {user: file.read_text() for user, file in files.items()}
    assert len(set(first.values())) == len(files) == 5
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files.values())
    make_logins(tmp_path, secure=True)
    assert {user: file.read_text() for user, file in files.items()} == first
    make_logins(tmp_path, secure=False)
    assert not [file for file in files.values() if file.exists()]


@pytest.mark.parametrize(
    ("part", "user"),
    [
        ("control", "distributary-control"),
        ("publisher-2", "distributary-publisher"),
        ("reducers", "distributary-reducers"),
        ("producer", SUPER_USER),
    ],
)
def test_each_component_logs_in_as_its_own_user(tmp_path: Path, part: str, user: str) -> None:
    make_logins(tmp_path, secure=True)
    login = component_login(tmp_path, part)
    assert f'username="{user}"' in login["sasl.jaas.config"]
    assert kafka_secret(tmp_path, user).read_text().strip() in login["sasl.jaas.config"]


def test_component_without_kafka_gets_no_login(tmp_path: Path) -> None:
    make_logins(tmp_path, secure=True)
    assert component_login(tmp_path, "socketio") == {}
