"""A class archive for Spark's JVM, which halves the time until the first record of a view.

Spark loads and verifies some twenty thousand classes before it does anything. Java can store them in the form
that they then have in memory (class data sharing). The archive only affects speed: Java checks it against the
jars, and ignores it when it does not match.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from distributary.setup.jars import cache_root, jar_set
from distributary.setup.java import Java

LIMIT = 300.0
"""Seconds that creating an archive may take."""


def archive_file(java: Java) -> Path:
    """The file of the archive for this Java, this PySpark and these jars, whether it exists or not."""
    facts = json.dumps(_facts(java), sort_keys=True)
    return cache_root() / "archives" / f"spark-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.jsa"


def options(java: Java) -> str:
    """The options with which Java starts from the archive; empty when there is none."""
    path = archive_file(java)
    # A mismatch is not worth a line in a log: it only takes longer.
    return (
        f"-XX:SharedArchiveFile={path} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
        if path.exists()
        else ""
    )


def ensure(java: Java, report: Callable[[str], None]) -> Path | None:
    """Create the archive unless it exists; None, after reporting why, when that fails."""
    path = archive_file(java)
    if path.exists():
        return path
    report("class archive: starting Spark once, so that it starts faster from now on")
    fresh = path.with_suffix(f".{os.getpid()}")
    log = path.with_suffix(".log")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _prune(path.parent)
        env = {**os.environ, "JAVA_HOME": str(java.home)}
        with log.open("wb") as out:
            subprocess.run(
                [sys.executable, "-m", "distributary.reducers.class_archive_run", str(fresh)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=env,
                timeout=LIMIT,
                check=True,
            )
        path.with_suffix(".json").write_text(json.dumps(_facts(java)))
        fresh.replace(path)
    except (OSError, subprocess.SubprocessError) as error:
        report(f"class archive: not created, Spark will start more slowly ({error}; see {log})")
        return None
    finally:
        fresh.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    return path


def _facts(java: Java) -> dict[str, str]:
    """All that an archive depends on."""
    spark = str(spark_home())
    return {"java": f"{java.home} {java.version}", "spark": spark, "jars": _stamp(Path(spark, "jars"))}


def spark_home() -> Path:
    """The folder of PySpark, which its jars are in."""
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec is not None and spec.origin else Path()


def _stamp(spark: Path) -> str:
    """Names, sizes and times of all jars: Java refuses an archive when one of them has another time.

    A virtual environment that was recreated in the same folder has the same jars, with other times.
    """
    own = cache_root() / "jars" / f"spark-{jar_set('spark').digest}"
    facts = [
        (str(jar), jar.stat().st_size, int(jar.stat().st_mtime))
        for folder in (spark, own)
        for jar in sorted(folder.glob("*.jar"))
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _prune(folder: Path) -> None:
    """Remove archives that no environment can use any more: it is gone, or has other jars."""
    for file in folder.glob("*.json"):
        facts = json.loads(file.read_text())
        spark = Path(facts["spark"])
        if not spark.exists() or facts.get("jars") != _stamp(spark / "jars"):
            file.with_suffix(".jsa").unlink(missing_ok=True)
            file.unlink()
