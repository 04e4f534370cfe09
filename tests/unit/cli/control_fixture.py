from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.threaded_api import ThreadedApi

from distributary.auth.token_issuer import create_stack_token


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedApi]:
    """A control API, found by its environment variable."""
    monkeypatch.chdir(tmp_path)
    threaded = ThreadedApi(tmp_path)
    monkeypatch.setenv("DISTRIBUTARY_CONTROL_URL", threaded.url)
    monkeypatch.setenv("DISTRIBUTARY_TOKEN", create_stack_token(tmp_path))
    yield threaded
    threaded.stop()
