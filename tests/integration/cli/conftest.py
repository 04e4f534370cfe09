"""The commands for Kafka, called in this process on the shared broker."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.stack import RunningStack

from distributary.cli.main import main


class Done(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def good(self) -> Done:
        assert self.status == 0, self.err
        return self

    def bad(self, *words: str, status: int = 1) -> Done:
        """It failed with these words, and without a traceback."""
        assert self.status == status, (self.out, self.err)
        assert "Traceback" not in self.err
        assert "unexpected" not in self.err
        for word in words:
            assert word in self.err, self.err
        return self


Run = Callable[..., Done]


class _Stdin(io.TextIOWrapper):
    pass


@pytest.fixture
def run(
    stack: RunningStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Call a command as a user does, in an empty folder, with the shared broker's address."""
    return caller(stack.config.kafka.bootstrap_servers, tmp_path, monkeypatch, capsys)


def caller(
    servers: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return a function that calls commands in a folder, for the Kafka at these addresses."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DISTRIBUTARY_CONFIG", raising=False)
    monkeypatch.setenv("DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS", servers)

    def call(*words: str, stdin: str | bytes = b"") -> Done:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", _Stdin(io.BytesIO(given)))
        capsys.readouterr()
        status = main(list(words))
        return Done(status, *capsys.readouterr())

    return call


@pytest.fixture
def topic() -> str:
    """A unique name that follows the convention."""
    return f"test.t{uuid.uuid4().hex[:10]}"
