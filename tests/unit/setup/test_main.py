import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributary.errors import JarMismatch
from distributary.setup import __main__ as command
from distributary.setup import class_archive, jars, java, lockfile, store_server


@pytest.fixture(autouse=True)
def all_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    one = lockfile.JarSet("x", (lockfile.Jar("o:m:1", "m-1.jar", 2_000_000, "00"),))
    monkeypatch.setattr(java, "ensure", lambda say: java.Java(Path("/j/bin/java"), "17.0.1"))
    monkeypatch.setattr(jars, "ensure", lambda name: Path("/c") / name)
    monkeypatch.setattr(jars, "jar_set", lambda name: one)
    monkeypatch.setattr(store_server, "find", lambda: store_server.StoreServer(Path("/v"), "valkey", "9.1.2"))
    classes = tmp_path / "classes.jsa"
    classes.write_bytes(b"x" * 3_000_000)
    monkeypatch.setattr(class_archive, "ensure", lambda java, say: classes)
    yield
    signal.signal(signal.SIGTERM, before)


def test_setup_prints_a_line_for_each_step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command.main([]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "java: 17.0.1 at /j/bin/java",
        "kafka jars: 1 jars, 2.0 MB at /c/kafka",
        "spark jars: 1 jars, 2.0 MB at /c/spark",
        f"class archive: 3 MB at {tmp_path}/classes.jsa",
        "store server: valkey 9.1.2 at /v",
    ]


def test_setup_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["java"] == {"path": "/j/bin/java", "version": "17.0.1", "home": "/j"}
    assert report["jars"]["kafka"] == {"path": "/c/kafka", "jars": 1, "bytes": 2_000_000}
    assert report["store"] == {"path": "/v", "kind": "valkey", "version": "9.1.2"}


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_failure_is_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    def refuse(name: str) -> Path:
        raise JarMismatch("m-1.jar is refused", hint="Look")

    monkeypatch.setattr(jars, "ensure", refuse)
    assert command.main(arguments) == 1
    out, err = capsys.readouterr()
    assert err == "error: m-1.jar is refused. Look\n"
    if arguments:
        assert json.loads(out)["error"] == {
            "code": "jar-mismatch",
            "message": "m-1.jar is refused",
            "hint": "Look",
            "retry": False,
        }


def test_interrupt_is_exit_code_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str) -> Path:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError

    monkeypatch.setattr(jars, "ensure", interrupted)
    assert command.main([]) == 130
    assert "interrupted" in capsys.readouterr().err
