"""``python -m bench [SCENARIO …] [--quick] [--json]``: run the benchmark."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import catchup, cycles, fanout, hostile, latency, live, machine, match, pace, report, rows, stacks
from bench.child import BenchError
from bench.figures import Say
from bench.spec import FULL, QUICK, Spec
from distributary.errors import DistributaryError

Scenario = Callable[[Spec, Path, Say], Awaitable[dict[str, Any]]]

SCENARIOS: dict[str, Scenario] = {
    "latency": lambda spec, folder, say: latency.measure(spec.latency, folder, say),
    "live": lambda spec, folder, say: live.measure(spec.live, folder, say),
    "catchup": lambda spec, folder, say: catchup.measure(spec.catchup, folder, say),
    "fanout": lambda spec, folder, say: fanout.measure(spec.fanout, folder, say),
    "match": lambda spec, folder, say: match.measure(spec.match, folder, say),
    "rows": lambda spec, folder, say: rows.measure(spec.rows, folder, say),
    "pace": lambda spec, folder, say: pace.measure(spec.pace, folder, say),
    "cycles": lambda spec, folder, say: cycles.measure(spec.cycles, folder, say),
    "hostile": lambda spec, folder, say: hostile.measure(spec.hostile, folder, say),
}


def main(argv: list[str] | None = None) -> int:
    """0 when everything was measured, whether or not the targets were met; 130 when interrupted."""
    args = _parser().parse_args(argv)
    for name in args.scenarios:
        if name not in SCENARIOS:
            print(f"error: there is no scenario {name}; there are: {', '.join(SCENARIOS)}", file=sys.stderr)
            return 2
    stacks.pin_programs()
    work = Path(tempfile.mkdtemp(prefix="distributary-bench-"))
    results: dict[str, Any] = {"machine": machine.describe(), "quick": args.quick, "scenarios": []}
    try:
        asyncio.run(_run(args.scenarios or list(SCENARIOS), QUICK if args.quick else FULL, work, results))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; everything was stopped", file=sys.stderr)
        shutil.rmtree(work, ignore_errors=True)
        return 130
    report.save(results, report.QUICK if args.quick else report.LATEST)
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        report.show(results, Console())
    if any(one["error"] for one in results["scenarios"]):
        print(f"logs are in {work}", file=sys.stderr)
        return 1
    shutil.rmtree(work, ignore_errors=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure distributary on this machine."
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"some of: {', '.join(SCENARIOS)}")
    parser.add_argument("--quick", action="store_true", help="a short run, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser


async def _run(names: list[str], spec: Spec, work: Path, results: dict[str, Any]) -> None:
    """Run the scenarios one after the other; one that fails does not keep the next from running."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    began = time.monotonic()
    for name in names:

        def say(line: str, name: str = name) -> None:
            print(f"{time.monotonic() - began:6.1f} s  {name}: {line}", file=sys.stderr, flush=True)

        figures: dict[str, Any] = {}
        error = ""
        stolen = machine.Stolen()
        try:
            figures = await SCENARIOS[name](spec, work / name, say)
        except TimeoutError:
            error = "a part of it did not start in time"
        except (BenchError, DistributaryError, OSError) as trouble:
            error = str(trouble)
        if figures and (share := stolen.share()) is not None:
            figures[f"{name}_stolen_share"] = share
        if error:
            say(f"not measured: {error}")
        when = {"time": machine.now(), "commit": machine.commit()}
        results["scenarios"].append({"name": name, "error": error, "figures": list(figures), **when})
        results |= figures


if __name__ == "__main__":
    sys.exit(main())
