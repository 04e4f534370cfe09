from collections.abc import Callable
from pathlib import Path

import pytest

from distributary.errors import JavaMissing
from distributary.setup import java

Script = Callable[[str, str], Path]


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "can_apt", lambda: False)


def test_java_home_is_preferred_to_path(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script("path/java", says("21.0.1"))
    at_home = script("home/bin/java", says("17.0.15"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.find() == java.Java(at_home, "17.0.15")
    assert java.find().home == tmp_path / "home"


def test_old_java_home_is_skipped_for_path(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script("home/bin/java", says("11.0.2"))
    on_path = script("path/java", says("25"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.find() == java.Java(on_path, "25")


def test_version_is_read_from_the_release_file(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script("home/bin/java", "exit 9")
    (tmp_path / "home/release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="17.0.9"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.find().version == "17.0.9"


def test_missing_java_error_says_how_to_install_it() -> None:
    with pytest.raises(JavaMissing, match=r"not found in JAVA_HOME or on PATH") as caught:
        java.find()
    assert "apt-get install openjdk-17-jre-headless" in caught.value.hint
    assert "brew install" in caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "why"),
    [(says("1.8.0_402"), r"java is 1\.8\.0_402"), ("exit 1", "does not run"), ("true", "not run")],
)
def test_unusable_java_is_named(script: Script, body: str, why: str) -> None:
    script("path/java", body)
    with pytest.raises(JavaMissing, match=why):
        java.find()


def fake_apt(script: Script, tmp_path: Path, install: str) -> None:
    script("path/apt-get", f'echo "$@" >> {tmp_path}/calls\ncase "$*" in *install*) {install};; esac')


def test_root_on_debian_gets_java_installed(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(java, "can_apt", lambda: True)
    script("ready", says("17.0.15"))
    fake_apt(script, tmp_path, f"/bin/mv {tmp_path}/ready {tmp_path}/path/java")
    lines: list[str] = []
    assert java.ensure(lines.append).version == "17.0.15"
    assert lines == ["java: installing openjdk-17-jre-headless with apt-get"]
    update, install = (tmp_path / "calls").read_text().splitlines()
    assert update.endswith("update -qq")
    assert install.endswith("install -y -qq --no-install-recommends openjdk-17-jre-headless")


def test_failure_of_apt_shows_its_last_line(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(java, "can_apt", lambda: True)
    fake_apt(script, tmp_path, "echo 'E: no such package' >&2; exit 100")
    lines: list[str] = []
    with pytest.raises(JavaMissing, match="E: no such package"):
        java.ensure(lines.append)
    assert len(lines) == len(java.PACKAGES)


def test_java_is_not_installed_for_other_users(script: Script, tmp_path: Path) -> None:
    fake_apt(script, tmp_path, "true")
    with pytest.raises(JavaMissing):
        java.ensure()
    assert not (tmp_path / "calls").exists()
