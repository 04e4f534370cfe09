"""``distributary view``: list, describe, apply and delete views."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.command_line import Args, Option, columns, combine, group, print_json
from distributary.config.settings_table import VIEW

if TYPE_CHECKING:
    from distributary.control.api_client import ControlClient

_POLL = 0.3
_TABLES = ("aggregates",)

view_group = group(
    "view",
    examples=(
        "distributary view list",
        "distributary view apply -f views.toml       create or change views, wait until they are live",
        'distributary view apply --name cheap --feed odds --key market_id --where "price < 2"',
        "distributary view describe odds",
        "distributary view delete odds",
    ),
)


_SECTION: dict[str, Any] = {"cls": Option, "section": "A view without a file"}

_definition_options = combine(
    *(
        click.option(
            "--aggregate", multiple=True, metavar="FIELD=FUNCTION", help=setting.info.doc, **_SECTION
        )
        if setting.name in _TABLES
        else click.option(
            f"--{setting.name.replace('_', '-')}",
            f"view_{setting.name}",
            metavar="TEXT",
            help=setting.info.doc,
            **_SECTION,
        )
        for setting in VIEW
    )
)
"""The settings of a view as options."""


@view_group.command("list")
def list_views(args: Args) -> int:
    """List the views."""
    from distributary.cli.status_command import views_text
    from distributary.control.api_client import connect

    views = connect(args.config).get("/v1/views")["views"]
    if args.json:
        print_json(views)
    else:
        print(views_text(views))
    return 0


@view_group.command("describe")
@click.argument("name", metavar="VIEW", help="the view")
def describe_view(args: Args) -> int:
    """Show the status and the definition of a view."""
    from distributary.control.api_client import connect, status_path

    view = connect(args.config).get(status_path(args.name))
    if args.json:
        print_json(view)
    else:
        print(describe_text(view))
    return 0


@view_group.command("delete")
@click.argument("name", metavar="VIEW", help="the view")
def delete_view(args: Args) -> int:
    """Delete a view."""
    from distributary.control.api_client import connect, view_path

    connect(args.config).call("DELETE", view_path(args.name))
    _print_progress(f"view {args.name}: deleted")
    return 0


@view_group.command("apply")
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML with [[views]], and [[feeds]] if they are new",
)
@click.option("--no-wait", is_flag=True, help="do not wait until it is live")
@_definition_options
def apply_views(args: Args) -> int:
    """Create or change views.

    A changed view is built beside the one that is served, and replaces it when it has caught up. The exit
    status is 1 if a view cannot be built.
    """
    from distributary.control.api_client import connect, status_path, view_path

    client = connect(args.config)
    building: list[tuple[str, str]] = []
    for body in _definitions(client, args):
        name = body["view"]["name"]
        response = client.call("PUT", view_path(name), body)
        if not response["changed"]:
            _print_progress(f"view {name}: unchanged ({response['state']})")
        elif args.no_wait:
            _print_progress(f"view {name}: accepted, being built")
        if not args.no_wait and response["state"] != "live":
            building.append((name, response["build"]))
    done = [wait_for(client, name, build) for name, build in building]
    if args.json:
        print_json([client.get(status_path(name)) for name, _ in building])
    return 0 if all(done) else 1


def _definitions(client: ControlClient, args: Args) -> list[dict[str, Any]]:
    """Read what to apply; the errors of a file have their lines."""
    from distributary.config import parse_views
    from distributary.errors import UsageError

    given = {
        name[5:]: value
        for name, value in vars(args).items()
        if name.startswith("view_") and value is not None
    }
    if args.aggregate:
        given["aggregates"] = dict(_aggregate(text) for text in args.aggregate)
    if args.file is None:
        if "name" not in given:
            raise UsageError("there is nothing to apply", hint="Give -f FILE, or --name and --feed")
        return [{"view": given}]
    if given:
        raise UsageError("a view comes from a file or from options, not both", hint="Leave one of them out")
    known = [feed["name"] for feed in client.get("/v1/feeds")["feeds"]]
    found = parse_views(_text(args.file), known, file=str(args.file))
    feeds = {feed.name: asdict(feed) for feed in found.feeds}
    return [
        {
            "view": asdict(view),
            **{
                part: feeds[name]
                for part, name in (("feed", view.feed), ("events", view.events))
                if name in feeds
            },
        }
        for view in found.views
    ]


def _aggregate(text: str) -> tuple[str, str]:
    from distributary.errors import UsageError

    field, equals, function = text.partition("=")
    if not equals:
        raise UsageError(
            f"--aggregate {text} is not FIELD=FUNCTION", hint="As in: --aggregate total=sum(stake)"
        )
    return field.strip(), function.strip()


def _text(file: Path) -> str:
    from distributary.errors import UsageError

    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def wait_for(client: ControlClient, name: str, build: str) -> bool:
    """Wait until a build is live and print its progress; False when it stopped, after printing the reason."""
    from distributary.control.api_client import status_path

    printed = ""
    while True:
        view = client.get(status_path(name))
        current = view if view["build"] == build else view["next"]
        if current is None or current["build"] != build:
            _print_progress(f"view {name}: replaced by another definition")
            return False
        if current["status"] == "live":
            _print_progress(f"view {name}: live, {current['rows']:,} rows")
            return True
        if current["status"] == "stopped":
            _print_progress(f"view {name}: stopped: {current['reason'] or 'no reason given'}")
            return False
        now = f"view {name}: building" + (
            "" if current.get("lag") is None else f", {current['lag']:,} records behind"
        )
        if now != printed:
            _print_progress(now)
            printed = now
        time.sleep(_POLL)


def describe_text(view: dict[str, Any]) -> str:
    """Lay out everything about a view, one fact a line."""
    facts = {name: value for name, value in view.items() if name not in ("definition", "next", "position")}
    for partition, mark in view.get("position", {}).items():
        facts[f"partition {partition}"] = f"{mark['offset']} of {'?' if mark['end'] is None else mark['end']}"
    for name, value in (view["next"] or {}).items():
        facts[f"next {name}"] = value
    definition = view["definition"] or {"view": {}, "feed": {}}
    rows = [(name, _shown(value)) for name, value in facts.items()]
    for part in ("view", "feed"):
        rows += [
            (f"{part}.{name}", _shown(value))
            for name, value in definition[part].items()
            if value not in (None, {})
        ]
    return columns(rows, ("FACT", "VALUE"))


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
