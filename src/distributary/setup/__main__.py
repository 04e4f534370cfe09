"""``python -m distributary.setup``: get Java, the jars and a store server, and say where they are."""

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
    """The command; returns the exit code: 0 all there, 1 something is missing, 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m distributary.setup",
        description="Get what the stack needs: Java 17 or newer, the Kafka and Spark jars, a class archive "
        "from which Spark starts faster, a store server. "
        "What is there already is left alone.",
        epilog="Environment: DISTRIBUTARY_CACHE (where jars are kept), DISTRIBUTARY_STORE_SERVER (a server "
        "program to use), DISTRIBUTARY_IVY_SETTINGS (an Ivy settings file, for a mirror), JAVA_HOME.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    as_json = parser.parse_args(arguments).json
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        report = _run(as_json)
    except DistributaryError as error:
        if as_json:
            about = {"code": error.code, "message": error.message, "hint": error.hint, "retry": error.retry}
            print(json.dumps({"error": about}))
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; nothing half fetched was kept, run it again to go on", file=sys.stderr)
        return 130
    if as_json:
        print(json.dumps(report))
    return 0


def _run(quiet: bool) -> dict[str, object]:
    """Do each step, say a line for each unless ``quiet``, and return what was found."""

    def say(line: str) -> None:
        if not quiet:
            print(line, flush=True)

    runtime = java.ensure(say=lambda line: print(line, file=sys.stderr, flush=True))
    say(f"java: {runtime.version} at {runtime.path}")
    sets: dict[str, object] = {}
    for name in SETS:
        folder = jars.ensure(name)
        wanted = jars.jar_set(name)
        say(f"{name} jars: {len(wanted.jars)} jars, {wanted.size / 1e6:.1f} MB at {folder}")
        sets[name] = {"path": str(folder), "jars": len(wanted.jars), "bytes": wanted.size}
    classes = class_archive.ensure(runtime, lambda line: print(line, file=sys.stderr, flush=True))
    if classes is not None:
        say(f"class archive: {classes.stat().st_size / 1e6:.0f} MB at {classes}")
    server = store_server.find()
    say(f"store server: {server.kind} {server.version} at {server.path}")
    return {
        "java": {"path": str(runtime.path), "version": runtime.version, "home": str(runtime.home)},
        "jars": sets,
        "archive": str(classes) if classes is not None else None,
        "store": {"path": str(server.path), "kind": server.kind, "version": server.version},
    }


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Treat a polite kill as Ctrl-C, so that the staging folder goes."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
