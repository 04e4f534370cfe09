"""Commands as they are on a machine where no stack runs, whatever else runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.stack import running_stacks


@pytest.fixture(autouse=True)
def no_other_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the only stack of this user that runs: hide those of other developers and tests."""
    monkeypatch.setattr(running_stacks, "folder", lambda: Path("/nonexistent"))
