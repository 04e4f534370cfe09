"""``distributary view``: list, show, apply and remove views."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.cli.command_line import add_common
from distributary.cli.output import columns, print_json

if TYPE_CHECKING:
    from distributary.control.api_client import ControlClient

NAME = "view"
HELP = "list, show, apply and remove views"
EXAMPLES = (
    "distributary view list",
    "distributary view apply -f views.toml       make or change a file's views; wait until they are live",
    'distributary view apply --name cheap --feed odds --key market_id --where "price < 2"',
    "distributary view describe odds",
    "distributary view delete odds",
)

_POLL = 0.3
_TABLES = ("aggregates",)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; the options of ``apply`` are the settings of a view."""
    from distributary.config.settings_table import VIEW

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    parsers = [actions.add_parser("list", help="list the views")]
    for action, text in (("describe", "show all that is known of a view"), ("delete", "remove a view")):
        parsers.append(actions.add_parser(action, help=text))
        parsers[-1].add_argument("name", help="the view")
    apply = actions.add_parser(
        "apply",
        help="make or change views",
        description="Make or change views. A changed view is built beside the one that is served, "
        "and takes its place when it has caught up.",
    )
    apply.add_argument("-f", "--file", type=Path, help="TOML with [[views]], and [[feeds]] if they are new")
    apply.add_argument("--no-wait", action="store_true", help="do not wait until it is live")
    for one in (*parsers, apply):
        add_common(one)
    group = apply.add_argument_group("a view without a file")
    for setting in VIEW:
        if setting.name in _TABLES:
            group.add_argument(
                "--aggregate", action="append", metavar="FIELD=FN", help=_help(setting.note.doc)
            )
        else:
            option = "--" + setting.name.replace("_", "-")
            group.add_argument(
                option, dest=f"view_{setting.name}", metavar="TEXT", help=_help(setting.note.doc)
            )


def run(args: argparse.Namespace) -> int:
    """Do the action; 1 when a view could not be built."""
    from distributary.control.api_client import connect, status_path, view_path

    client = connect(args.config)
    if args.action == "list":
        return _list(client, as_json=args.json)
    if args.action == "describe":
        view = client.get(status_path(args.name))
        if args.json:
            print_json(view)
        else:
            print(describe_text(view))
        return 0
    if args.action == "delete":
        client.call("DELETE", view_path(args.name))
        print(f"view {args.name}: removed", file=sys.stderr)
        return 0
    return _apply(client, args)


def _list(client: ControlClient, *, as_json: bool) -> int:
    from distributary.cli.status_command import views_text

    views = client.get("/v1/views")["views"]
    if as_json:
        print_json(views)
    else:
        print(views_text(views))
    return 0


def _apply(client: ControlClient, args: argparse.Namespace) -> int:
    from distributary.control.api_client import status_path, view_path

    asked: list[tuple[str, str]] = []
    for body in _definitions(client, args):
        name = body["view"]["name"]
        reply = client.call("PUT", view_path(name), body)
        if not reply["changed"]:
            _say(f"view {name}: unchanged ({reply['state']})")
        elif args.no_wait:
            _say(f"view {name}: accepted, being built")
        if not args.no_wait and reply["state"] != "live":
            asked.append((name, reply["build"]))
    done = [wait_for(client, name, build) for name, build in asked]
    if args.json:
        print_json([client.get(status_path(name)) for name, _ in asked])
    return 0 if all(done) else 1


def _definitions(client: ControlClient, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Read what to apply; mistakes of a file are told with their lines."""
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
            raise UsageError(
                "there is nothing to apply", hint="Give -f FILE, or --name with --feed and others"
            )
        return [{"view": given}]
    if given:
        raise UsageError("a view comes from a file or from options, not both", hint="Leave one out")
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
            f"--aggregate {text}: no = in it", hint="Write for example --aggregate total=sum(stake)"
        )
    return field.strip(), function.strip()


def _text(file: Path) -> str:
    from distributary.errors import UsageError

    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def wait_for(client: ControlClient, name: str, build: str) -> bool:
    """Wait until a build is live, telling how far it is; False when it stopped, with the reason told."""
    from distributary.control.api_client import status_path

    said = ""
    while True:
        view = client.get(status_path(name))
        mine = view if view["build"] == build else view["next"]
        if mine is None or mine["build"] != build:
            _say(f"view {name}: replaced by another definition")
            return False
        if mine["status"] == "live":
            _say(f"view {name}: live, {mine['rows']:,} rows")
            return True
        if mine["status"] == "stopped":
            _say(f"view {name}: stopped: {mine['reason'] or 'no reason given'}")
            return False
        now = f"view {name}: building" + (
            "" if mine.get("lag") is None else f", {mine['lag']:,} records behind"
        )
        if now != said:
            _say(now)
            said = now
        time.sleep(_POLL)


def describe_text(view: dict[str, Any]) -> str:
    """Lay out all that is known of a view, one fact a line."""
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


def _help(doc: str) -> str:
    return doc.replace("%", "%%")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
