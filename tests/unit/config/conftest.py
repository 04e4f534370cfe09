from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from distributary.config import Config, load
from distributary.errors import ConfigError

Load = Callable[..., Config]
Refuse = Callable[..., list[str]]


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a text as ./distributary.toml of an empty folder."""
    monkeypatch.chdir(tmp_path)

    def loaded(text: str, env: Mapping[str, str] | None = None, **overrides: str) -> Config:
        Path("distributary.toml").write_text(text)
        return load(env=env or {}, overrides={key.replace("__", "."): v for key, v in overrides.items()})

    return loaded


@pytest.fixture
def refuse_text(load_text: Load) -> Refuse:
    """Load a text that must be refused; gives the lines of the error."""

    def refused(text: str, env: Mapping[str, str] | None = None, **overrides: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load_text(text, env, **overrides)
        assert [str(problem) for problem in caught.value.problems] == caught.value.message.splitlines()
        return caught.value.message.splitlines()

    return refused
