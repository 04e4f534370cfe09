"""Read and write ``jars.lock``: for each set, the jars with their coordinates, sizes and sha256."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distributary.errors import SetupError

LOCK = Path(__file__).with_name("jars.lock")
_HEADER = "# Made by `python -m distributary.setup.update_lockfile`. Do not edit by hand.\n"


@dataclass(frozen=True, order=True)
class Jar:
    """One locked jar. ``coordinate`` is ``organisation:module:revision``; ``size`` is in bytes."""

    coordinate: str
    file: str
    size: int
    sha256: str


@dataclass(frozen=True)
class JarSet:
    """A named folder of jars, such as ``kafka`` (the broker's classpath)."""

    name: str
    jars: tuple[Jar, ...]

    @property
    def size(self) -> int:
        """All the jars together, in bytes."""
        return sum(jar.size for jar in self.jars)

    @property
    def digest(self) -> str:
        """Twelve hex digits that change whenever any jar of the set does."""
        text = "".join(f"{jar.file} {jar.sha256}\n" for jar in sorted(self.jars))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def read(path: Path = LOCK) -> dict[str, JarSet]:
    """Return every set of the lock by name; raise `SetupError` when the file is missing or malformed."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return {name: JarSet(name, tuple(Jar(**jar) for jar in jars)) for name, jars in data.items()}
    except (OSError, ValueError, TypeError) as error:
        raise SetupError(
            f"the jar lock {path} cannot be read: {error}",
            hint="Reinstall Distributary, or restore that file",
        ) from error


def write(sets: Mapping[str, Sequence[Jar]], path: Path = LOCK) -> None:
    """Replace the lock as a whole, in a stable order."""
    parts = [_HEADER]
    for name in sorted(sets):
        for jar in sorted(sets[name]):
            parts.append(
                f'\n[[{name}]]\ncoordinate = "{jar.coordinate}"\nfile = "{jar.file}"\n'
                f'size = {jar.size}\nsha256 = "{jar.sha256}"\n'
            )
    staged = path.with_suffix(".new")
    staged.write_text("".join(parts), encoding="utf-8")
    staged.replace(path)


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
