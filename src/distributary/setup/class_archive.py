"""A class archive for Spark's JVM: with it, half of the time until a view's first record is saved.

Spark loads and verifies some twenty thousand classes before it does anything. Java can keep them as they are
in memory once that is done (class data sharing). The archive is a matter of speed only: Java checks it
against the jars and goes on without it when it does not fit.
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
"""Seconds that making an archive may take."""


def file(java: Java) -> Path:
    """Where the archive for this Java, this PySpark and these jars is, or would be."""
    facts = json.dumps(_facts(java), sort_keys=True)
    return cache_root() / "archives" / f"spark-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.jsa"


def options(java: Java) -> str:
    """What to tell Java so that it starts from the archive; empty when there is none."""
    path = file(java)
    # Whatever does not fit is not worth a line in a log: it only takes longer.
    return (
        f"-XX:SharedArchiveFile={path} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
        if path.exists()
        else ""
    )


def ensure(java: Java, say: Callable[[str], None]) -> Path | None:
    """Make the archive unless it is there; None, and a line that says why, when it cannot be made."""
    path = file(java)
    if path.exists():
        return path
    say("class archive: starting Spark once, so that it starts faster from now on")
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
        say(f"class archive: not made, Spark will start more slowly ({error}; see {log})")
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

    A virtual environment that was made anew in the same place has the same jars, at another time.
    """
    ours = cache_root() / "jars" / f"spark-{jar_set('spark').digest}"
    facts = [
        (str(jar), jar.stat().st_size, int(jar.stat().st_mtime))
        for folder in (spark, ours)
        for jar in sorted(folder.glob("*.jar"))
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _prune(folder: Path) -> None:
    """Remove archives that no environment would start from any more: it is gone, or has other jars now."""
    for note in folder.glob("*.json"):
        facts = json.loads(note.read_text())
        spark = Path(facts["spark"])
        if not spark.exists() or facts.get("jars") != _stamp(spark / "jars"):
            note.with_suffix(".jsa").unlink(missing_ok=True)
            note.unlink()
