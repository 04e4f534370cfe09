"""Regenerate ``jars.lock``: ``python -m distributary.setup.update_lockfile``.

Requires the network. Check the difference before you commit it: every installation trusts the lock.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distributary.errors import DistributaryError, JarFetchFailed
from distributary.setup import ivy, lockfile
from distributary.setup.lockfile import Jar


@dataclass(frozen=True)
class Root:
    """A coordinate to lock, alone or with all it depends on."""

    coordinate: str
    transitive: bool = False


ROOTS: Mapping[str, Sequence[Root]] = {
    # The broker's classpath. Kafka 4.3 speaks slf4j 1.7, hence log4j-slf4j-impl: without it no log.
    "kafka": (
        Root("org.apache.kafka:kafka_2.13:4.3.1", transitive=True),
        Root("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"),
    ),
    # What Spark's own jars lack to read Kafka.
    "spark": (
        Root("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
        Root("org.apache.kafka:kafka-clients:3.9.2"),
        Root("org.apache.commons:commons-pool2:2.13.1"),
        Root("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"),
        # There is none for 4.2. Only its from_avro is used, which leaves the work to Spark's own jars.
        Root("org.apache.spark:spark-avro_2.13:4.1.1"),
    ),
}
Fetch = Callable[[Root, Path], None]
"""Fetches a root into ``folder/organisation/module/revision/file``."""


def fetch(root: Root, into: Path) -> None:
    """Fetch one root with Ivy; raise `JarFetchFailed` when that fails."""
    organisation, module, revision = root.coordinate.split(":")
    what = ["-dependency", organisation, module, revision]
    if not root.transitive:
        what.append("-notransitive")
    pattern = f"{into}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"
    with tempfile.TemporaryDirectory(prefix="distributary-ivy-") as work:
        ivy.run(what, pattern, Path(work), lambda line: None)


def update_lock(
    path: Path = lockfile.LOCK,
    *,
    roots: Mapping[str, Sequence[Root]] = ROOTS,
    fetch: Fetch = fetch,
    report: Callable[[str], None] = print,
) -> None:
    """Download every root, and write the lock at ``path``; on failure it is unchanged."""
    sets: dict[str, list[Jar]] = {}
    for name, members in roots.items():
        with tempfile.TemporaryDirectory(prefix="distributary-lock-") as scratch:
            for root in members:
                report(f"{name}: resolving {root.coordinate}")
                fetch(root, Path(scratch))
            sets[name] = [_jar(file, Path(scratch)) for file in Path(scratch).rglob("*.jar")]
        modules = [jar.coordinate.rpartition(":")[0] for jar in sets[name]]
        if twice := sorted({module for module in modules if modules.count(module) > 1}):
            raise JarFetchFailed(
                f"{name} would contain two revisions of {', '.join(twice)}",
                hint="Align the revisions in ROOTS of update_lockfile.py",
            )
        report(f"{name}: {len(sets[name])} jars, {sum(jar.size for jar in sets[name]) / 1e6:.1f} MB")
    lockfile.write(sets, path)


def _jar(file: Path, scratch: Path) -> Jar:
    organisation, module, revision, name = file.relative_to(scratch).parts
    return Jar(f"{organisation}:{module}:{revision}", name, file.stat().st_size, lockfile.sha256_of(file))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m distributary.setup.update_lockfile",
        description="Regenerate the lock of the Kafka and Spark jars.",
    )
    parser.add_argument(
        "--output", type=Path, default=lockfile.LOCK, help="the file to write (default: the package's)"
    )
    options = parser.parse_args(arguments)
    try:
        update_lock(options.output)
    except DistributaryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the lock is unchanged", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
