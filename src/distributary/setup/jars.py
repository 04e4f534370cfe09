"""Keep the locked jars in a user cache: fetched once, verified, never half there.

A set lives in ``<cache>/jars/<set>-<digest>/``, and beside it a stamp ``<set>-<digest>.json`` tells that
every sha256 was verified, with the size and time of each file then. The folder appears by one rename, after
verification; a file lock keeps two processes from fetching the same set at once.
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
    """Return the folder that holds exactly the jars of this set, fetching them first if need be.

    When they are there already, nothing is fetched, no Java starts and nothing is written. Raises
    `JarMismatch` when a jar with other bytes arrives (nothing of that fetch is kept), `JarFetchFailed` when
    one does not arrive or the cache cannot be written, `SetupError` for a set the lock does not have.
    """
    wanted = jar_set(set_name, lock=lock)
    root = cache_root() / "jars"
    folder = root / f"{wanted.name}-{wanted.digest}"
    if _stamped(folder, wanted):
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        progress = DownloadProgress(f"{wanted.name} jars", len(wanted.jars), wanted.size)
        with _alone(root / f"{wanted.name}.lock", progress):
            if not _stamped(folder, wanted):
                if not _whole(folder, wanted):
                    _fetch(folder, wanted, resolver, progress)
                _stamp(folder, wanted)
    except OSError as error:
        raise JarFetchFailed(
            f"the jar cache {root} cannot be written: {error.strerror or error}",
            hint=f"Free some space, or set {CACHE} to a folder you own",
        ) from error
    return folder


def verify(set_name: str, folder: Path, *, lock: Path = lockfile.LOCK) -> None:
    """Hash every jar of the folder; raise `JarFetchFailed` or `JarMismatch` unless it is exactly the set."""
    _verify(folder, jar_set(set_name, lock=lock))


def jar_set(set_name: str, *, lock: Path = lockfile.LOCK) -> JarSet:
    """The locked set of this name; raise `SetupError` naming the sets there are."""
    sets = lockfile.read(lock)
    if set_name not in sets:
        raise SetupError(f"{lock.name} has no set {set_name!r}", hint=f"It has: {', '.join(sorted(sets))}")
    return sets[set_name]


def _fetch(folder: Path, wanted: JarSet, resolver: Resolver, progress: DownloadProgress) -> None:
    """Fetch into a staging folder, verify, then rename; the staging folder goes whatever happens."""
    for stale in folder.parent.glob(f".{wanted.name}-*.staging"):  # of a process that was killed
        shutil.rmtree(stale, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{wanted.name}-", suffix=".staging", dir=folder.parent))
    try:
        arriving, work = staging / "jars", staging / "work"
        arriving.mkdir()
        work.mkdir()
        progress.start()
        resolver(wanted.jars, arriving, work, progress)
        _verify(arriving, wanted)
        if folder.exists():  # damaged: that is why we are here
            folder.rename(staging / "damaged")
        arriving.rename(folder)
    finally:
        progress.close()
        shutil.rmtree(staging, ignore_errors=True)


def _verify(folder: Path, wanted: JarSet) -> None:
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if missing := sorted(jar.file for jar in wanted.jars if jar.file not in names):
        raise JarFetchFailed(
            f"{len(missing)} jars of {wanted.name} did not arrive: {', '.join(missing)}", hint=ivy.HINT
        )
    if extra := sorted(names - {jar.file for jar in wanted.jars}):
        raise JarFetchFailed(
            f"{wanted.name} came with files that are not locked: {', '.join(extra)}", hint=ivy.HINT
        )
    for jar in wanted.jars:
        actual = lockfile.sha256_of(folder / jar.file)
        if actual != jar.sha256:
            raise JarMismatch(
                f"{jar.file} ({jar.coordinate}) is refused: sha256 is {actual}, locked is {jar.sha256}",
                hint="Nothing was kept; find out who changed it (a mirror, a proxy?) and try again; "
                "only if the new file is right, run `python -m distributary.setup.update_lockfile`",
            )


def _whole(folder: Path, wanted: JarSet) -> bool:
    """Whether the folder is there and every byte is right."""
    try:
        _verify(folder, wanted)
    except (JarFetchFailed, JarMismatch):
        return False
    return True


def _facts(folder: Path, wanted: JarSet) -> dict[str, object]:
    """What the stamp records: the lock's digest, and each file's size and time."""
    files = {entry.name: [entry.stat().st_size, entry.stat().st_mtime_ns] for entry in os.scandir(folder)}
    return {"digest": wanted.digest, "files": files}


def _stamped(folder: Path, wanted: JarSet) -> bool:
    """Whether the folder still is as it was when every hash was verified."""
    try:
        recorded = json.loads(folder.with_name(folder.name + ".json").read_text(encoding="utf-8"))
        return bool(recorded == _facts(folder, wanted))
    except (OSError, ValueError):
        return False


def _stamp(folder: Path, wanted: JarSet) -> None:
    stamp = folder.with_name(folder.name + ".json")
    staged = stamp.with_suffix(".new")
    staged.write_text(json.dumps(_facts(folder, wanted)), encoding="utf-8")
    staged.replace(stamp)


@contextmanager
def _alone(path: Path, progress: DownloadProgress) -> Iterator[None]:
    """Hold the file lock; the system lets go of it when the process ends, however it ends."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note("waiting for another process that is fetching them")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
