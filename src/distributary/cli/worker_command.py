"""``distributary worker``: run a function for every record of a topic, as a crew of processes."""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from typing import Any

from distributary.cli.command_line import add_common
from distributary.cli.kafka_options import add_kafka, cluster_of
from distributary.cli.output import columns, config_of, print_json
from distributary.errors import UsageError

NAME = "worker"
HELP = "run a function for every record of a topic, scale it, stop it"
EXAMPLES = (
    "distributary worker run billing:charge --topic shop.orders    as many processes as are needed",
    "distributary worker run billing:charge --topic shop.orders --min 2 --max 8 --to shop.invoices",
    "distributary worker run billing:charge --topic shop.orders --to shop.invoices --exactly-once",
    "distributary worker list",
    "distributary worker scale shop.orders.charge 4                        four, whatever waits",
    "distributary worker scale shop.orders.charge 1..8                     by lag again",
    "distributary worker stop shop.orders.charge                           finish what is in hand, then end",
)

_WAIT = 40.0
"""How long `scale` and `stop` wait until it is so, in seconds."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.set_defaults(command=NAME)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run_ = actions.add_parser("run", help="run a function until Ctrl-C")
    run_.add_argument(
        "function", metavar="MODULE:FUNCTION", help="called with each record (distributary.Record)"
    )
    run_.add_argument("--topic", required=True, help="the records' topic")
    run_.add_argument("--group", help="the consumer group (default: TOPIC.FUNCTION)")
    run_.add_argument("--name", help="for list, scale and stop (default: the group)")
    run_.add_argument("--min", type=int, default=1, metavar="N", help="workers at least (default: 1)")
    run_.add_argument(
        "--max", type=int, default=0, metavar="N", help="workers at most (default: one a partition)"
    )
    run_.add_argument(
        "--lag-per-worker",
        type=int,
        default=1_000,
        metavar="N",
        help="one worker for so many (default: 1000)",
    )
    run_.add_argument(
        "--calm", type=float, default=30.0, metavar="SECONDS", help="before one is let go (default: 30)"
    )
    run_.add_argument(
        "--to", default="", metavar="TOPIC", help="where what the function gives back is written"
    )
    run_.add_argument(
        "--from", dest="start", choices=("earliest", "latest"), default="earliest", help="a new group's start"
    )
    run_.add_argument("--retries", type=int, default=3, metavar="N", help="after a failure (default: 3)")
    run_.add_argument(
        "--backoff",
        type=float,
        default=0.5,
        metavar="SECONDS",
        help="before the first, then doubled (default: 0.5)",
    )
    run_.add_argument(
        "--dead-letters", metavar="TOPIC", help="for what still fails (default: TOPIC.dead-letters)"
    )
    run_.add_argument(
        "--exactly-once", action="store_true", help="what is written to --to counts once, by transactions"
    )
    run_.add_argument(
        "--batch", type=int, default=100, metavar="N", help="records in a transaction at most (default: 100)"
    )
    run_.add_argument("--force", action="store_true", help="whatever the naming convention and others say")
    add_kafka(run_)
    for name, text in (
        ("list", "list the workers that run here"),
        ("scale", "set how many there are"),
        ("stop", "finish what is in hand, then end"),
    ):
        one = actions.add_parser(name, help=text)
        if name != "list":
            one.add_argument("name", metavar="NAME", help="as `worker list` shows it")
        if name == "scale":
            one.add_argument("span", metavar="N|MIN..MAX", help="so many; or by lag, between these")
        add_common(one)


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    return {"run": _run, "list": _list, "scale": _scale, "stop": _stop}[args.action](args)


def _run(args: argparse.Namespace) -> int:
    from distributary.workers.autoscaler import Scaler, Span
    from distributary.workers.run_workers import run as work
    from distributary.workers.worker_spec import Spec

    _check(args)
    config = config_of(args, required=False)
    cluster = cluster_of(args, config)
    group = args.group or f"{args.topic}.{args.function.rpartition(':')[2].strip('_').replace('_', '-')}"
    kafka = cluster.kafka
    spec = Spec(
        args.function,
        args.topic,
        group,
        {**kafka.properties, "bootstrap.servers": kafka.bootstrap_servers},
        args.to,
        args.dead_letters or f"{args.topic}.dead-letters",
        args.start,
        args.retries,
        args.backoff,
        args.exactly_once,
        args.batch,
    )
    own = work(
        cluster,
        spec,
        Span(args.min, args.max),
        Scaler(args.lag_per_worker, args.calm),
        config.data_dir,
        args.name or group,
        lambda line: print(f"{args.name or group}: {line}", file=sys.stderr, flush=True),
        convention=config.naming.groups,
        force=args.force,
    )
    if args.json:
        print_json(_as_json(own))
    else:
        print(f"{own.name}: {own.done:,} records done, {own.dead:,} of them dead letters", file=sys.stderr)
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.exactly_once and not args.to:
        raise UsageError(
            "--exactly-once needs --to TOPIC", hint="It is the output that counts once, by transactions"
        )
    wrong = {
        "--min": args.min < 0,
        "--max": args.max < 0 or 0 < args.max < args.min,
        "--lag-per-worker": args.lag_per_worker < 1,
        "--calm": args.calm < 0,
        "--retries": args.retries < 0,
        "--backoff": args.backoff <= 0,
        "--batch": args.batch < 1,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            value = getattr(args, name[2:].replace("-", "_"))
            raise UsageError(f"{name} {value} makes no sense", hint="See: distributary worker run --help")


def _list(args: argparse.Namespace) -> int:
    from distributary.workers.pool_state import crews

    found = crews(config_of(args, required=False).data_dir)
    if args.json:
        print_json([_as_json(one) for one in found])
        return 0
    rows = [
        (
            one.name,
            one.function,
            one.topic,
            f"{one.workers} of {_span(one)}",
            "-" if one.lag is None else f"{one.lag:,}",
            f"{one.done:,}",
            f"{one.dead:,}",
            str(one.restarts),
            str(one.pid),
        )
        for one in found
    ]
    heads = ("NAME", "FUNCTION", "TOPIC", "WORKERS", "LAG", "DONE", "DEAD", "RESTARTS", "PID")
    print(columns(rows, heads))
    return 0


def _scale(args: argparse.Namespace) -> int:
    from distributary.workers import pool_state
    from distributary.workers.autoscaler import parse_span

    try:
        span = parse_span(args.span)
    except ValueError as error:
        raise UsageError(str(error)) from None
    folder = config_of(args, required=False).data_dir
    pool_state.crew(folder, args.name)
    wish = pool_state.Wish(uuid.uuid4().hex, span.least, span.most)
    pool_state.ask(folder, args.name, wish)
    deadline = time.monotonic() + _WAIT
    while (own := pool_state.crew(folder, args.name)).wish != wish.id or own.workers != own.wanted:
        if time.monotonic() > deadline:
            raise UsageError(f"{args.name} did not get there in {_WAIT:g} s", hint="See what it prints")
        time.sleep(0.05)
    if args.json:
        print_json(_as_json(own))
    else:
        print(f"{own.name}: {own.workers} workers, of {_span(own)} ({own.partitions} partitions)")
    return 0


def _stop(args: argparse.Namespace) -> int:
    import contextlib

    import psutil

    from distributary.stack.stack_file import is_process
    from distributary.workers import pool_state

    own = pool_state.crew(config_of(args, required=False).data_dir, args.name)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(own.pid).terminate()
    deadline = time.monotonic() + _WAIT
    while is_process(own.pid, own.birth):
        if time.monotonic() > deadline:
            raise UsageError(f"{own.name} (pid {own.pid}) did not end in {_WAIT:g} s")
        time.sleep(0.05)
    if args.json:
        print_json({"stopped": own.name})
    else:
        print(f"{own.name}: stopped")
    return 0


def _span(own: Any) -> str:
    from distributary.workers.autoscaler import Span

    return str(Span(own.least, own.most))


def _as_json(own: Any) -> dict[str, Any]:
    return {
        "name": own.name,
        "function": own.function,
        "topic": own.topic,
        "group": own.group,
        "min": own.least,
        "max": own.most or None,
        "workers": own.workers,
        "partitions": own.partitions,
        "lag": own.lag,
        "done": own.done,
        "dead": own.dead,
        "restarts": own.restarts,
        "pid": own.pid,
    }
