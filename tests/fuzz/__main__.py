"""``make fuzz`` (``python -m tests.fuzz``): random and mutated inputs for parsers of untrusted data."""

from __future__ import annotations

import argparse
import hashlib
import math
import secrets
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.engine import Result, Target, fuzz
from tests.fuzz.targets import TARGETS

FOLDER = Path("build/fuzz")


def main(arguments: Sequence[str] | None = None, targets: Sequence[Target] = TARGETS) -> int:
    """Run the command; exit status 0 if nothing was found, 1 if something was, 2 for invalid options."""
    options = _parser(targets).parse_args(arguments)
    by_name = {target.name: target for target in targets}
    if options.replay is not None:
        return _replay(by_name, options.replay)
    chosen = [by_name[name] for name in options.target or by_name]
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.inputs} inputs, {len(chosen)} targets", flush=True)
    total_share = sum(target.share for target in chosen)
    results = []
    for target in chosen:
        inputs = max(len(target.corpus) + 1, math.ceil(options.inputs * target.share / total_share))
        result = fuzz(target, inputs, seed, options.seconds / len(chosen))
        results.append(result)
        rate = result.inputs / max(result.seconds, 0.001)
        print(
            f"{target.name}: {result.inputs} inputs, {rate:.0f}/s {'FAILED' if result.failure else ''}",
            flush=True,
        )
    print(f"\n{table(results)}\n{sum(result.inputs for result in results)} inputs in total")
    return max([_report(result, options.crashes) for result in results], default=0)


def table(results: Sequence[Result]) -> str:
    """Format the results as a table."""
    headings = ("TARGET", "INPUTS", "ACCEPTED", "REJECTED", "SLOWEST MS", "GROWTH MB")
    rows = [
        (
            one.target,
            str(one.inputs),
            str(one.accepted),
            str(one.rejected),
            f"{one.slowest * 1000:.1f}",
            f"{one.growth / (1 << 20):.1f}",
        )
        for one in results
    ]
    widths = [max(len(row[at]) for row in (headings, *rows)) for at in range(len(headings))]
    return "\n".join(
        "  ".join(
            cell.ljust(wide) if at == 0 else cell.rjust(wide)
            for at, (cell, wide) in enumerate(zip(row, widths, strict=True))
        )
        for row in (headings, *rows)
    )


def _report(result: Result, folder: Path) -> int:
    if not result.failure:
        return 0
    print(f"\n{result.target}: {result.failure}", file=sys.stderr)
    if result.trace is not None:
        traceback.print_exception(result.trace, limit=-8, file=sys.stderr)
    if result.crash is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{result.target}-{hashlib.sha256(result.crash).hexdigest()[:12]}"
        file.write_bytes(result.target.encode() + b"\n" + result.crash)
        print(f"smallest input ({len(result.crash)} bytes): {result.crash[:200]!r}", file=sys.stderr)
        print(f"repeat it: python -m tests.fuzz --replay {file}", file=sys.stderr)
    return 1


def _replay(by_name: dict[str, Target], file: Path) -> int:
    """Run one saved input: its target's name on the first line, then the bytes."""
    name, _, data = file.read_bytes().partition(b"\n")
    target = by_name.get(name.decode("utf-8", "replace"))
    if target is None:
        print(f"error: {file} does not name a target", file=sys.stderr)
        return 2
    with target.open() as run:
        print("accepted" if run(data) else "rejected")
    return 0


def _parser(targets: Sequence[Target]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=(__doc__ or "").split(": ", 1)[1]
    )
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs in total (1000000)")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this many seconds in total")
    parser.add_argument(
        "--target",
        action="append",
        choices=[target.name for target in targets],
        help="only this target; can be repeated",
    )
    parser.add_argument("--seed", type=int, help="the seed of a run to repeat")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one saved input and show its result")
    parser.add_argument(
        "--crashes", type=Path, default=FOLDER, help=f"where inputs that crash are saved ({FOLDER})"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
