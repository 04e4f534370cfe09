"""Commands run as on a machine without a stack; ``control`` is a control API that they find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.threaded_api import ThreadedApi

from distributary.auth.token_issuer import create_stack_token
from distributary.stack import stack_file


@pytest.fixture(autouse=True)
def no_other_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide running stacks of this user: a command without a configuration uses the only one that runs."""
    monkeypatch.setattr(stack_file, "registry_folder", lambda: Path("/nonexistent"))


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedApi]:
    """A control API, found by its environment variable."""
    monkeypatch.chdir(tmp_path)
    threaded = ThreadedApi(tmp_path)
    monkeypatch.setenv("DISTRIBUTARY_CONTROL_URL", threaded.url)
    monkeypatch.setenv("DISTRIBUTARY_TOKEN", create_stack_token(tmp_path))
    yield threaded
    threaded.stop()
