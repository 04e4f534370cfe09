import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from distributary.errors import JarFetchFailed, JarMismatch, SetupError
from distributary.setup import jars, lockfile
from distributary.setup.ivy import DownloadProgress
from distributary.setup.lockfile import Jar

BYTES = {"a-1.jar": b"aaaa", "b-2.jar": b"bb" * 50}


class Fake:
    """A resolver that writes what it was told to, and counts."""

    def __init__(self, **changed: bytes | None) -> None:
        self.calls = 0
        self.give: dict[str, bytes] = dict(BYTES)
        for name, content in changed.items():
            file = {"a": "a-1.jar", "b": "b-2.jar"}.get(name, f"{name}.jar")
            self.give.pop(file, None)
            if content is not None:
                self.give[file] = content

    def __call__(self, wanted: Sequence[Jar], into: Path, work: Path, progress: DownloadProgress) -> None:
        self.calls += 1
        for name, content in self.give.items():
            (into / name).write_bytes(content)
            progress.arrived(len(content))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(jars.CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "jars"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    rows = [
        Jar(f"org:{file[0]}:{file[2]}", file, len(content), hashlib.sha256(content).hexdigest())
        for file, content in BYTES.items()
    ]
    lockfile.write({"kafka": rows}, tmp_path / "jars.lock")
    return tmp_path / "jars.lock"


def litter(cache: Path) -> list[str]:
    """What is in the cache besides the lock file."""
    return sorted(path.name for path in cache.iterdir() if path.name != "kafka.lock")


def test_fetch_gives_exactly_the_locked_jars(
    cache: Path, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = jars.ensure("kafka", resolver=Fake(), lock=lock)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == BYTES
    assert litter(cache) == [folder.name, folder.name + ".json"]
    assert capsys.readouterr().err.splitlines() == [
        "kafka jars: fetching 2 jars, 0.0 MB",
        "kafka jars: 1/2 jars, 0.0/0.0 MB",
        "kafka jars: 2/2 jars, 0.0/0.0 MB",
    ]


def test_second_run_fetches_and_prints_nothing(
    cache: Path, lock: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake()
    first = jars.ensure("kafka", resolver=fake, lock=lock)
    capsys.readouterr()
    monkeypatch.setattr(lockfile, "sha256_of", lambda path: pytest.fail("hashed again"))
    assert jars.ensure("kafka", resolver=fake, lock=lock) == first
    assert fake.calls == 1
    assert capsys.readouterr() == ("", "")


def test_wrong_hash_is_refused_and_nothing_is_stored(cache: Path, lock: Path) -> None:
    with pytest.raises(JarMismatch) as caught:
        jars.ensure("kafka", resolver=Fake(a=b"evil"), lock=lock)
    message = str(caught.value)
    assert "a-1.jar (org:a:1)" in message
    assert hashlib.sha256(b"evil").hexdigest() in message
    assert hashlib.sha256(b"aaaa").hexdigest() in message
    assert "python -m distributary.setup.update_lockfile" in message
    assert litter(cache) == []


@pytest.mark.parametrize(
    ("fake", "why"),
    [(Fake(b=None), "1 jars of kafka were not received: b-2.jar"), (Fake(c=b"?"), "not locked: c.jar")],
)
def test_missing_or_extra_jar_is_refused(cache: Path, lock: Path, fake: Fake, why: str) -> None:
    with pytest.raises(JarFetchFailed, match=why):
        jars.ensure("kafka", resolver=fake, lock=lock)
    assert litter(cache) == []


def test_interrupted_fetch_leaves_nothing(cache: Path, lock: Path) -> None:
    def interrupted(wanted: Sequence[Jar], into: Path, work: Path, progress: DownloadProgress) -> None:
        (into / "a-1.jar").write_bytes(b"aa")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jars.ensure("kafka", resolver=interrupted, lock=lock)
    assert litter(cache) == []
    assert jars.ensure("kafka", resolver=Fake(), lock=lock).is_dir()


def test_files_of_a_killed_process_are_removed(cache: Path, lock: Path) -> None:
    (cache / ".kafka-dead.staging" / "jars").mkdir(parents=True)
    folder = jars.ensure("kafka", resolver=Fake(), lock=lock)
    assert litter(cache) == [folder.name, folder.name + ".json"]


def test_lost_stamp_causes_a_check_but_no_fetch(cache: Path, lock: Path) -> None:
    fake = Fake()
    folder = jars.ensure("kafka", resolver=fake, lock=lock)
    stamp = folder.with_name(folder.name + ".json")
    stamp.unlink()
    jars.ensure("kafka", resolver=fake, lock=lock)
    assert stamp.exists()
    assert fake.calls == 1


@pytest.mark.parametrize("damage", [b"aa", b"bbbb", None])
def test_damaged_cache_is_repaired(cache: Path, lock: Path, damage: bytes | None) -> None:
    fake = Fake()
    folder = jars.ensure("kafka", resolver=fake, lock=lock)
    if damage is None:
        (folder / "a-1.jar").unlink()
    else:
        (folder / "a-1.jar").write_bytes(damage)
        os.utime(folder / "a-1.jar", ns=(1, 1))
    assert jars.ensure("kafka", resolver=fake, lock=lock) == folder
    assert (folder / "a-1.jar").read_bytes() == b"aaaa"
    assert fake.calls == 2


def test_concurrent_runs_fetch_once(cache: Path, lock: Path) -> None:
    entered, go = threading.Event(), threading.Event()
    fake = Fake()

    def slow(wanted: Sequence[Jar], into: Path, work: Path, progress: DownloadProgress) -> None:
        entered.set()
        assert go.wait(10)
        fake(wanted, into, work, progress)

    found: list[Path] = []
    runs = [
        threading.Thread(target=lambda: found.append(jars.ensure("kafka", resolver=slow, lock=lock)))
        for _ in range(2)
    ]
    runs[0].start()
    assert entered.wait(10)
    runs[1].start()
    go.set()
    for run in runs:
        run.join(10)
    assert fake.calls == 1
    assert len(found) == 2
    assert found[0] == found[1]


def test_cache_that_cannot_be_written_is_named(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(jars.CACHE, str(tmp_path / "file"))
    with pytest.raises(JarFetchFailed, match=r"cannot write the jar cache .*file/jars") as caught:
        jars.ensure("kafka", resolver=Fake(), lock=lock)
    assert jars.CACHE in caught.value.hint


def test_unknown_set_is_named(lock: Path) -> None:
    with pytest.raises(SetupError, match=r"no set 'flink'\. It has: kafka"):
        jars.ensure("flink", lock=lock)


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(jars.CACHE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert jars.cache_root() == tmp_path / ".cache" / "distributary"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert jars.cache_root() == tmp_path / "xdg" / "distributary"
    monkeypatch.setenv(jars.CACHE, str(tmp_path / "own"))
    assert jars.cache_root() == tmp_path / "own"


@pytest.mark.parametrize("name", ["kafka", "spark"])
def test_cached_jars_match_the_real_lock(name: str) -> None:
    wanted = jars.jar_set(name)
    folder = jars.cache_root() / "jars" / f"{name}-{wanted.digest}"
    if not folder.is_dir():
        pytest.skip(f"the {name} jars are not cached on this machine; `make setup` fetches them")
    jars.verify(name, folder)
