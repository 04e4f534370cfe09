"""``distributary subscribe``: follow a view's rows in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.command_line import Args, command

if TYPE_CHECKING:
    from distributary.auth.client_security import Trust
    from distributary.subscriber.subscribed_change import SubscribedChange

_MARKS = {
    "add": ("+", "32"),
    "change": ("~", "33"),
    "remove": ("-", "31"),
    "stale": ("!", "35"),
    "fresh": ("!", "35"),
}


@command(
    "subscribe",
    examples=(
        "distributary subscribe odds                              the whole view, until Ctrl-C",
        "distributary subscribe odds --where \"sport = 'football'\"",
        "distributary subscribe odds --key m1 --key m2 --json     JSON lines, exact numbers",
        "distributary subscribe odds --fields price,match.name    some fields of each row",
        "distributary subscribe odds --max 0                      the current rows only",
        'distributary subscribe odds --order "price desc" --limit 10',
        "distributary subscribe odds --conflate 2s                the latest version of each row, every 2 s",
    ),
)
@click.argument("view", metavar="VIEW", help="the view")
@click.option("--where", metavar="FILTER", help="only rows that match, for example: price > 1.5")
@click.option("--key", multiple=True, metavar="KEY", help="only the row of this key; may be repeated")
@click.option("--fields", metavar="LIST", help="only these fields, for example: price,match.name")
@click.option(
    "--from", "start", metavar="WHEN", help="only changes after a position or a time (ISO 8601, ms)"
)
@click.option("--order", metavar="FIELDS", help="only the first rows by: price desc, score.home")
@click.option("--limit", type=int, metavar="N", help="how many rows; requires --order")
@click.option("--conflate", metavar="TIME", help="only the latest version of each row, every 2s or 500ms")
@click.option("--max-rate", type=float, metavar="N", help="at most N changes a second, by conflation")
@click.option("--max-bytes", metavar="SIZE", help="at most this many bytes a second (64k), by conflation")
@click.option(
    "--slow", type=click.Choice(("conflate", "close")), help="what to do when this reader falls behind"
)
@click.option("--max", type=int, metavar="N", help="stop after N changes; 0: after the first rows")
@click.option("--url", multiple=True, help="a publisher's address (default: of the stack)")
def subscribe_command(args: Args) -> int:
    """Print rows and changes until Ctrl-C or ``--max``."""
    from distributary.errors import BadQuery
    from distributary.model.order import order_of
    from distributary.model.query import Query
    from distributary.publisher.codec.subscribe_options import read_conflation

    if args.where is not None and args.key:
        raise BadQuery("a query has keys or a filter, not both", hint="Leave out --where or --key")
    Query.parse(args.view, args.where)
    order_of(args.order, args.limit)
    read_conflation(vars(args))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_follow(args))
    return 0


async def _follow(args: Args) -> None:
    from distributary.subscriber.async_subscriber import subscribe

    lines = json_lines if args.json else people_lines
    left = args.max
    url = list(args.url) or publishers(args)
    following = subscribe(
        args.view,
        args.where,
        args.key or None,
        fields=args.fields,
        from_position=args.start,
        order_by=args.order,
        limit=args.limit,
        conflate=args.conflate,
        max_rate=args.max_rate,
        max_bytes=args.max_bytes,
        slow=args.slow,
        url=url,
        get_token=own_token(args),
        tls=own_trust(args),
    )
    async with following as changes:
        while True:
            for change in await changes.take():
                if change.op not in ("snapshot", "resumed") and left is not None:
                    left -= 1
                    if left < 0:
                        return
                for line in lines(change):
                    print(line)
            sys.stdout.flush()
            if left is not None and left <= 0:
                return


def own_token(args: Args) -> Callable[[], str] | None:
    """Return what issues tokens for the stack of the configuration; None where it needs none.

    A token or key of the environment takes precedence, and an address that is given gets no other.
    """
    from distributary.control.api_client import stack_config
    from distributary.model.endpoints import CONTROL_URL, environment_credentials

    given = args.url or (args.config is None and os.environ.get(CONTROL_URL))
    if given or any(environment_credentials(os.environ)):
        return None
    config = stack_config(args.config)
    if not config.auth.on:
        return None
    from distributary.auth import token_issuer

    return lambda: token_issuer.own_token(config)


def own_trust(args: Args) -> Trust:
    """Which servers are trusted: also the stack that the command line means, by its certificate."""
    from distributary.auth.client_security import Trust
    from distributary.control.api_client import stack_config

    if args.url or (args.config is None and os.environ.get("DISTRIBUTARY_CONTROL_URL")):
        return Trust()
    return Trust.of_stack(stack_config(args.config).data_dir)


def publishers(args: Args) -> list[str]:
    """List the publishers of the stack that the command line means; raises StackNotRunning."""
    from distributary.control.api_client import ControlClient, find_control, not_running, stack_config
    from distributary.stack.stack_file import running

    if args.config is None and os.environ.get("DISTRIBUTARY_CONTROL_URL"):
        return [ControlClient(find_control(None)).get("/v1")["publisher"]]
    config = stack_config(args.config)
    state = running(config.data_dir)
    found = (
        [part.addresses["websocket"] for part in state.components if "websocket" in part.addresses]
        if state
        else []
    )
    if not found:
        raise not_running(config)
    return list(dict.fromkeys(found))


def json_lines(change: SubscribedChange) -> Iterator[str]:
    """Format a change as one line of JSON, with exact numbers."""
    from distributary.subscriber.subscribed_change import encode_json

    body: dict[str, Any] = {"op": change.op}
    if change.op == "snapshot":
        body |= {"rows": change.rows, "stale": change.stale, "incomplete": change.incomplete}
    elif change.key is not None:
        body["key"] = change.key
    for name in ("tier", "time", "row", "changed", "gone"):
        if getattr(change, name):
            body[name] = getattr(change, name)
    if change.at is not None:
        body["at"] = change.at
    if change.position is not None:
        body["position"] = str(change.position)
    yield encode_json(body)


def people_lines(change: SubscribedChange) -> Iterator[str]:
    """Format a change for people: a mark, the key, and what is new."""
    from distributary.subscriber.subscribed_change import encode_json

    if change.op == "snapshot":
        facts = [f"{len(change.rows)} rows"] + ["stale"] * change.stale + ["incomplete"] * change.incomplete
        yield _coloured("# " + ", ".join(facts), "1")
        for key, row in change.rows.items():
            yield f"= {key} {encode_json(row)}"
        return
    if change.op == "resumed":
        yield _coloured(f"# resumed ({change.tier}): newer changes follow", "1")
        return
    mark, colour = _MARKS[change.op]
    if change.op in ("stale", "fresh"):
        yield _coloured(
            f"{mark} the source " + ("sends no records" if change.op == "stale" else "sends records again"),
            colour,
        )
        return
    body = change.changed if change.op == "change" and change.changed else change.row
    line = f"{mark} {change.key}" + (f" {encode_json(body)}" if body is not None else "")
    line += f" at {change.at + 1}" if change.at is not None else ""
    yield _coloured(line + (f" without {', '.join(change.gone)}" if change.gone else ""), colour)


def _coloured(text: str, colour: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"
