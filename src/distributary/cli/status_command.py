"""``distributary status``: what runs, how far behind it is, and what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import click

from distributary.cli.command_line import Args, columns, command, print_json

REQUEST_TIMEOUT = 5.0
"""Seconds to wait for the control API."""
_INTERVAL = 1.0
_COMPONENT_HEADS = ("COMPONENT", "STATE", "PID", "RESTARTS", "AT")
_CLEAR = "\x1b[H\x1b[J"


@command(
    "status",
    examples=(
        "distributary status                 the stack of ./distributary.toml",
        "distributary status --watch         refresh every second, until Ctrl-C",
        "distributary status --json          everything, for programs",
        "distributary status --check         the alarms; exit status 1 if there are any, for a probe or cron",
        "DISTRIBUTARY_CONTROL_URL=http://host:8080 distributary status",
    ),
)
@click.option("--watch", is_flag=True, help="refresh every second, until Ctrl-C")
@click.option("--check", is_flag=True, help="print only the alarms; exit status 1 if there are any")
def status_command(args: Args) -> int:
    """Print the status; StackNotRunning when no stack runs."""
    if args.watch:
        with contextlib.suppress(KeyboardInterrupt):
            _watch(args)
        return 0
    status = read_status(args.config)
    if not args.check:
        _show(status, as_json=args.json)
        return 0
    if args.json:
        print_json(status["alarms"])
    else:
        print(alarms_text(status))
    return 1 if status["alarms"] else 0


def read_status(path: Path | None) -> dict[str, Any]:
    """Ask the control API; without it, look at the stack from here. Raises StackNotRunning."""
    from distributary.control.api_client import connect, stack_config
    from distributary.errors import StackNotRunning
    from distributary.model.endpoints import CONTROL_URL
    from distributary.stack.stack_file import running

    try:
        found: dict[str, Any] = connect(path, timeout=REQUEST_TIMEOUT).get("/v1/status")
        return found
    except StackNotRunning as error:
        config = stack_config(path)
        elsewhere = path is None and os.environ.get(CONTROL_URL)
        if elsewhere or running(config.data_dir) is None:
            raise
        from distributary.control.offline_status import observe

        return asyncio.run(observe(config, error.message))


def _watch(args: Args) -> None:
    while True:
        status = read_status(args.config)
        if sys.stdout.isatty() and not args.json:
            sys.stdout.write(_CLEAR)
        _show(status, as_json=args.json)
        sys.stdout.flush()
        time.sleep(_INTERVAL)


def _show(status: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(status)
    else:
        print(status_text(status))


def status_text(status: dict[str, Any]) -> str:
    """Lay a status out for people."""
    totals = status["publishers"]
    blocks = [
        f"stack {status['stack'] or '(not supervised here)'}, distributary {status['version']}: "
        f"{totals['connections']} connections, {totals['subscribers']} subscribers, "
        f"{totals['channels']} channels"
    ]
    if status["components"]:
        blocks.append(columns([_component(one) for one in status["components"]], _COMPONENT_HEADS))
    if status["feeds"]:
        rows = [
            (feed["name"], feed["topic"], feed["format"], ", ".join(feed["views"]))
            for feed in status["feeds"]
        ]
        blocks.append(columns(rows, ("FEED", "TOPIC", "FORMAT", "VIEWS")))
    blocks.append(views_text(status["views"]))
    blocks.append(alarms_text(status))
    return "\n\n".join(blocks)


def alarms_text(status: dict[str, Any]) -> str:
    """Lay the alarms out, two lines each; without any, list what was checked."""
    if not status["alarms"]:
        checked = f"{_number(status['components'], 'component')}, {_number(status['views'], 'view')}"
        return f"no alarms: checked Kafka, the store, {checked}"
    lines = []
    for alarm in status["alarms"]:
        since = max(0, status["time"] - alarm["since"]) / 1000
        lines.append(f"! {alarm['name']}: {alarm['text']} (for {since:.0f} s)")
        lines.append(f"  {alarm['hint']}")
    return "\n".join(lines)


def _number(items: list[Any], name: str) -> str:
    return f"{len(items)} {name}{'' if len(items) == 1 else 's'}"


def views_text(views: list[dict[str, Any]]) -> str:
    """Lay views out, one a line; the next build of a view has its own line."""
    if not views:
        return "no views; create one with: distributary view apply -f FILE"
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


def _component(one: dict[str, Any]) -> tuple[str, ...]:
    at = " ".join(one["addresses"].values()) or ("(yours)" if one["external"] else "-")
    return (one["name"], one["state"], str(one["pid"] or "-"), str(one["restarts"]), at)


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
