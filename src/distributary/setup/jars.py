"""Store the locked jars in a user cache: downloaded once, verified, complete or not there.

A set lives in ``<cache>/jars/<set>-<digest>/``, and beside it a stamp ``<set>-<digest>.json`` records that
every sha256 was verified, with the size and time of each file. The folder appears by one rename, after
verification; a file lock keeps two processes from downloading the same set at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from distributary.errors import JarFetchFailed, JarMismatch, SetupError
from distributary.setup import ivy, lockfile
from distributary.setup.ivy import DownloadProgress
from distributary.setup.lockfile import Jar, JarSet

CACHE = "DISTRIBUTARY_CACHE"
Resolver = Callable[[Sequence[Jar], Path, Path, DownloadProgress], None]
"""Puts the jars into the first folder under their locked names; the second is scratch. See `ivy.resolve`."""


def cache_root() -> Path:
    """``$DISTRIBUTARY_CACHE``, else ``$XDG_CACHE_HOME/distributary``, else ``~/.cache/distributary``."""
    if own := os.environ.get(CACHE):
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "distributary"


def ensure(set_name: str, *, resolver: Resolver = ivy.resolve, lock: Path = lockfile.LOCK) -> Path:
    """Return the folder that contains exactly the jars of this set, downloading them first if necessary.

    If they are already there, nothing is downloaded, no Java starts and nothing is written. Raises
    `JarMismatch` for a jar with other bytes (nothing of that download is stored), `JarFetchFailed` when
    one is not received or the cache cannot be written, `SetupError` for a set that the lock does not have.
    """
    locked = jar_set(set_name, lock=lock)
    root = cache_root() / "jars"
    folder = root / f"{locked.name}-{locked.digest}"
    if _stamped(folder, locked):
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        progress = DownloadProgress(f"{locked.name} jars", len(locked.jars), locked.size)
        with _alone(root / f"{locked.name}.lock", progress):
            if not _stamped(folder, locked):
                if not _is_complete(folder, locked):
                    _fetch(folder, locked, resolver, progress)
                _stamp(folder, locked)
    except OSError as error:
        raise JarFetchFailed(
            f"cannot write the jar cache {root}: {error.strerror or error}",
            hint=f"Free some space, or set {CACHE} to a folder of your own",
        ) from error
    return folder


def verify(set_name: str, folder: Path, *, lock: Path = lockfile.LOCK) -> None:
    """Hash every jar of the folder; raise `JarFetchFailed` or `JarMismatch` unless it is exactly the set."""
    _verify(folder, jar_set(set_name, lock=lock))


def jar_set(set_name: str, *, lock: Path = lockfile.LOCK) -> JarSet:
    """The locked set of this name; raise `SetupError` with the sets that exist."""
    sets = lockfile.read(lock)
    if set_name not in sets:
        raise SetupError(f"{lock.name} has no set {set_name!r}", hint=f"It has: {', '.join(sorted(sets))}")
    return sets[set_name]


def _fetch(folder: Path, locked: JarSet, resolver: Resolver, progress: DownloadProgress) -> None:
    """Download into a staging folder, verify, then rename; the staging folder is removed in any case."""
    for stale in folder.parent.glob(f".{locked.name}-*.staging"):  # of a process that was killed
        shutil.rmtree(stale, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{locked.name}-", suffix=".staging", dir=folder.parent))
    try:
        arriving, work = staging / "jars", staging / "work"
        arriving.mkdir()
        work.mkdir()
        progress.start()
        resolver(locked.jars, arriving, work, progress)
        _verify(arriving, locked)
        if folder.exists():  # damaged, or it would not be downloaded
            folder.rename(staging / "damaged")
        arriving.rename(folder)
    finally:
        progress.close()
        shutil.rmtree(staging, ignore_errors=True)


def _verify(folder: Path, locked: JarSet) -> None:
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if missing := sorted(jar.file for jar in locked.jars if jar.file not in names):
        raise JarFetchFailed(
            f"{len(missing)} jars of {locked.name} were not received: {', '.join(missing)}", hint=ivy.HINT
        )
    if extra := sorted(names - {jar.file for jar in locked.jars}):
        raise JarFetchFailed(
            f"{locked.name} contains files that are not locked: {', '.join(extra)}", hint=ivy.HINT
        )
    for jar in locked.jars:
        actual = lockfile.sha256_of(folder / jar.file)
        if actual != jar.sha256:
            raise JarMismatch(
                f"{jar.file} ({jar.coordinate}) has the sha256 {actual}, but the lock has {jar.sha256}",
                hint="Nothing was stored; find out what changed it (a mirror, a proxy?) and try again; "
                "only if the new file is correct, run `python -m distributary.setup.update_lockfile`",
            )


def _is_complete(folder: Path, locked: JarSet) -> bool:
    """Whether the folder exists and every byte is right."""
    try:
        _verify(folder, locked)
    except (JarFetchFailed, JarMismatch):
        return False
    return True


def _facts(folder: Path, locked: JarSet) -> dict[str, object]:
    """What the stamp records: the lock's digest, and each file's size and time."""
    files = {entry.name: [entry.stat().st_size, entry.stat().st_mtime_ns] for entry in os.scandir(folder)}
    return {"digest": locked.digest, "files": files}


def _stamped(folder: Path, locked: JarSet) -> bool:
    """Whether the folder is unchanged since every hash was verified."""
    try:
        recorded = json.loads(folder.with_name(folder.name + ".json").read_text(encoding="utf-8"))
        return bool(recorded == _facts(folder, locked))
    except (OSError, ValueError):
        return False


def _stamp(folder: Path, locked: JarSet) -> None:
    stamp = folder.with_name(folder.name + ".json")
    staged = stamp.with_suffix(".new")
    staged.write_text(json.dumps(_facts(folder, locked)), encoding="utf-8")
    staged.replace(stamp)


@contextmanager
def _alone(path: Path, progress: DownloadProgress) -> Iterator[None]:
    """Take the file lock; the system releases it when the process ends, however it ends."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note("waiting for another process that is downloading them")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
