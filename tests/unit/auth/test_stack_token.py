from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.auth.stack_token import StackToken, create_stack_token


def test_token_is_made_once_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    assert StackToken(tmp_path).read() == ""
    token = create_stack_token(tmp_path)
    assert len(token) > 40
    assert create_stack_token(tmp_path) == token
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_token_that_is_made_later_is_found(tmp_path: Path) -> None:
    """A part may be started before the folder has one."""
    own = StackToken(tmp_path)
    assert not own.is_it("ds_x")
    assert own.is_it(create_stack_token(tmp_path))


def test_token_in_a_file_that_others_can_read_does_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = create_stack_token(tmp_path)
    (tmp_path / "token").chmod(0o644)
    assert not StackToken(tmp_path).is_it(token)
    assert "chmod 600" in caplog.text
    assert token not in caplog.text


@given(st.text())
def test_no_text_is_the_token_of_a_folder_without_one(text: str) -> None:
    assert not StackToken(Path("/nowhere")).is_it(text)
    assert not StackToken(Path("/nowhere")).is_it(f"ds_{text}")


@given(st.text(st.characters(categories=("Cs", "L"))))
def test_bytes_that_are_no_text_are_no_token(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        create_stack_token(Path(folder))
        assert not StackToken(Path(folder)).is_it(f"ds_{text}")
