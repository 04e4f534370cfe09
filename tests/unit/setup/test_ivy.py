import io
from collections.abc import Callable
from pathlib import Path

import pytest

from distributary.errors import JarFetchFailed
from distributary.setup import ivy
from distributary.setup.ivy import DownloadProgress
from distributary.setup.lockfile import Jar

Script = Callable[[str, str], Path]
JAR = Jar("o.g:m:1", "m-1.jar", 2_000_000, "00")


@pytest.fixture
def fake_java(script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Path]:
    """Makes the ``java`` that Ivy runs on a shell script which counts its runs."""

    def make(body: str) -> Path:
        runs = tmp_path / "runs"
        script("home/bin/java", f'echo "$@" >> {runs}\n{body}')
        (tmp_path / "home/release").write_text('JAVA_VERSION="17.0.1"\n')
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        return runs

    return make


def resolve(tmp_path: Path) -> str:
    out = io.StringIO()
    ivy.resolve([JAR], tmp_path / "into", tmp_path, DownloadProgress("kafka", 1, JAR.size, out))
    return out.getvalue()


def test_output_of_ivy_becomes_progress(fake_java: Callable[[str], Path], tmp_path: Path) -> None:
    runs = fake_java(
        "printf '\\tfound o.g#m;1 in public\\n.... (3kB)\\n\\t[SUCCESSFUL ] o.g#m;1!m.jar(bundle) (2ms)'"
    )
    assert resolve(tmp_path) == "kafka: 1/1 jars, 2.0/2.0 MB\n"
    assert f"-retrieve {tmp_path}/into/[artifact]-[revision].[ext]" in runs.read_text()
    assert "-types jar bundle" in runs.read_text()
    module = (tmp_path / "ivy.xml").read_text()
    assert '<dependency org="o.g" name="m" rev="1" transitive="false"' in module


def test_ivy_is_retried_and_its_failure_is_one_line(fake_java: Callable[[str], Path], tmp_path: Path) -> None:
    runs = fake_java("printf '\\t\\t:: o.g#m;1: not found\\n\\t\\t:: o.g#n;1: not found\\n'; exit 1")
    with pytest.raises(JarFetchFailed, match=r"o\.g#m;1: not found and 1 more") as caught:
        resolve(tmp_path)
    assert len(runs.read_text().splitlines()) == ivy.ATTEMPTS
    assert "\n" not in str(caught.value)


def test_ivy_succeeds_at_the_second_attempt(fake_java: Callable[[str], Path], tmp_path: Path) -> None:
    fake_java(f"[ $(wc -l < {tmp_path}/runs) -gt 1 ] || {{ echo 'Connection reset'; exit 1; }}")
    assert "Connection reset (exit code 1); retrying" in resolve(tmp_path)


def test_ivy_without_output_is_stopped(
    fake_java: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java("exec sleep 60")
    monkeypatch.setattr(ivy, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(ivy, "ATTEMPTS", 1)
    with pytest.raises(JarFetchFailed, match="received nothing for"):
        resolve(tmp_path)


def test_ivy_gets_the_settings_of_a_mirror(
    fake_java: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = fake_java("true")
    monkeypatch.setenv(ivy.SETTINGS, "mirror.xml")
    resolve(tmp_path)
    assert "-settings mirror.xml" in runs.read_text()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_prints_a_line_each_quarter_without_a_terminal() -> None:
    out = io.StringIO()
    progress = DownloadProgress("kafka", 40, 40_000_000, out)
    for _ in range(40):
        progress.looked_up()
        progress.arrived(1_000_000)
    progress.close()
    assert out.getvalue().splitlines() == [
        f"kafka: {done}/40 jars, {done}.0/40.0 MB" for done in (10, 20, 30, 40)
    ]


def test_progress_updates_one_line_on_a_terminal() -> None:
    out = Terminal()
    progress = DownloadProgress("kafka", 2, 2_000_000, out)
    progress.looked_up()
    progress.arrived(1_000_000)
    progress.close()
    wipe = "\r\x1b[K"
    assert out.getvalue() == f"{wipe}kafka: looked up 1/2{wipe}kafka: 1/2 jars, 1.0/2.0 MB{wipe}"
