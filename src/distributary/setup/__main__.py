"""``python -m distributary.setup``: get Java, the jars and a store server, and print where they are."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from distributary.errors import DistributaryError
from distributary.setup import class_archive, jars, java, store_server

SETS = ("kafka", "spark")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code: 0 complete, 1 something is missing, 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m distributary.setup",
        description="Get what a stack requires: Java 17 or newer, the jars of Kafka and Spark, a class "
        "archive from which Spark starts faster, and a store server. What is already there is not changed.",
        epilog="Environment: DISTRIBUTARY_CACHE (the folder for the jars), DISTRIBUTARY_STORE_SERVER (the "
        "program to use), DISTRIBUTARY_IVY_SETTINGS (an Ivy settings file, for a mirror), JAVA_HOME.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    as_json = parser.parse_args(arguments).json
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        found = _run(as_json)
    except DistributaryError as error:
        if as_json:
            about = {"code": error.code, "message": error.message, "hint": error.hint, "retry": error.retry}
            print(json.dumps({"error": about}))
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; incomplete downloads were deleted, run it again to continue", file=sys.stderr)
        return 130
    if as_json:
        print(json.dumps(found))
    return 0


def _run(quiet: bool) -> dict[str, object]:
    """Do each step, print a line for each unless ``quiet``, and return what was found."""

    def report(line: str) -> None:
        if not quiet:
            print(line, flush=True)

    runtime = java.ensure(lambda line: print(line, file=sys.stderr, flush=True))
    report(f"java: {runtime.version} at {runtime.path}")
    sets: dict[str, object] = {}
    for name in SETS:
        folder = jars.ensure(name)
        locked = jars.jar_set(name)
        report(f"{name} jars: {len(locked.jars)} jars, {locked.size / 1e6:.1f} MB at {folder}")
        sets[name] = {"path": str(folder), "jars": len(locked.jars), "bytes": locked.size}
    classes = class_archive.ensure(runtime, lambda line: print(line, file=sys.stderr, flush=True))
    if classes is not None:
        report(f"class archive: {classes.stat().st_size / 1e6:.0f} MB at {classes}")
    server = store_server.find()
    report(f"store server: {server.kind} {server.version} at {server.path}")
    return {
        "java": {"path": str(runtime.path), "version": runtime.version, "home": str(runtime.home)},
        "jars": sets,
        "archive": str(classes) if classes is not None else None,
        "store": {"path": str(server.path), "kind": server.kind, "version": server.version},
    }


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM as Ctrl-C, so that the staging folder is removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
