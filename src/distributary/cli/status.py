"""``distributary status``: what runs, how far behind it is, and what is wrong."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from distributary.cli.output import columns, print_json

if TYPE_CHECKING:
    from distributary.control.client import ControlClient

NAME = "status"
HELP = "show what runs, how far behind it is, and what is wrong"
EXAMPLES = (
    "distributary status                 the stack of ./distributary.toml",
    "distributary status --watch         again every second, until Ctrl-C",
    "distributary status --json          everything, for programs",
    "DISTRIBUTARY_CONTROL_URL=http://host:8080 distributary status",
)

_EVERY = 1.0
_PART_HEADS = ("PART", "STATE", "PID", "RESTARTS", "AT")
_CLEAR = "\x1b[H\x1b[J"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--watch", action="store_true", help="show it again every second, until Ctrl-C")


def run(args: argparse.Namespace) -> int:
    """Show it; an error when nothing runs there."""
    from distributary.control.client import connect
    from distributary.errors import StackNotRunning

    client = connect(args.config)
    if not args.watch:
        try:
            status = client.get("/v1/status")
        except StackNotRunning:
            _show_parts(args)
            raise
        _show(status, as_json=args.json)
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        _watch(client, as_json=args.json)
    return 0


def _show_parts(args: argparse.Namespace) -> None:
    """Show at least what the supervisor knows, when the control API does not answer."""
    from distributary.control.client import stack_config
    from distributary.operate.state import running

    state = running(stack_config(args.config).data_dir)
    if state is not None and not args.json:
        rows = [_part(asdict(part)) for part in state.parts]
        print(columns(rows, _PART_HEADS), end="\n\n")


def _watch(client: ControlClient, *, as_json: bool) -> None:
    while True:
        status = client.get("/v1/status")
        if sys.stdout.isatty() and not as_json:
            sys.stdout.write(_CLEAR)
        _show(status, as_json=as_json)
        sys.stdout.flush()
        time.sleep(_EVERY)


def _show(status: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(status)
    else:
        print(status_text(status))


def status_text(status: dict[str, Any]) -> str:
    """Lay a status out for people."""
    people = status["publishers"]
    blocks = [
        f"stack {status['stack'] or '(not supervised here)'}, distributary {status['version']}: "
        f"{people['connections']} connections, {people['subscribers']} subscribers, "
        f"{people['channels']} channels"
    ]
    if status["parts"]:
        blocks.append(columns([_part(part) for part in status["parts"]], _PART_HEADS))
    if status["feeds"]:
        rows = [
            (feed["name"], feed["topic"], feed["format"], ", ".join(feed["views"]))
            for feed in status["feeds"]
        ]
        blocks.append(columns(rows, ("FEED", "TOPIC", "FORMAT", "VIEWS")))
    blocks.append(views_text(status["views"]))
    blocks.append("\n".join(f"! {line}" for line in status["problems"]) or "nothing is wrong")
    return "\n\n".join(blocks)


def views_text(views: list[dict[str, Any]]) -> str:
    """Lay views out, one a line; a build under way has a line of its own."""
    if not views:
        return "no views; make one with: distributary view apply -f FILE"
    rows = []
    for view in views:
        rows.append(_view(view, view["name"], view))
        if view["next"]:
            rows.append(_view(view["next"], "  next", {}))
    heads = (
        "VIEW",
        "STATUS",
        "ENGINE",
        "ROWS",
        "RATE",
        "LAG",
        "DEAD",
        "SUBSCRIBERS",
        "P50",
        "P99",
        "POSITION",
    )
    return columns(rows, heads)


def _part(part: dict[str, Any]) -> tuple[str, ...]:
    at = " ".join(part["addresses"].values()) or ("(yours)" if part["external"] else "-")
    return (part["name"], part["state"], str(part["pid"] or "-"), str(part["restarts"]), at)


def _view(build: dict[str, Any], name: str, published: dict[str, Any]) -> tuple[str, ...]:
    status = build["status"] + (", stale" if published.get("stale") else "")
    status += ", incomplete" if build.get("incomplete") else ""
    seconds = build.get("lag_seconds")
    lag = _count(build.get("lag")) + (f" ({seconds:.1f} s)" if seconds else "")
    engine = (build.get("engine") or "-") + (", re-keyed" if build.get("rekeyed") else "")
    return (
        name,
        status,
        engine,
        _count(build.get("rows")),
        _rate(build.get("rate")),
        lag,
        _count(build.get("dead_letters")),
        _count(published.get("subscribers")),
        _ms(published.get("e2e_p50_ms")),
        _ms(published.get("e2e_p99_ms")),
        _position(build.get("position") or {}),
    )


def _position(position: dict[str, Any]) -> str:
    return " ".join(f"{partition}:{mark['offset']}" for partition, mark in position.items()) or "-"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}/s" if value >= 10 or not value else f"{value:.1f}/s"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"
