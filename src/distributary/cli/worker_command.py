"""``distributary worker``: run a function for every record of a topic, in a pool of processes."""

from __future__ import annotations

import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.command_line import Args, group, load_config, print_json, print_rows
from distributary.cli.kafka_options import cluster_of, cluster_options
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.workers.pool_state import PoolState

_WAIT = 40.0
"""How long `scale` and `stop` wait for the pool, in seconds."""

worker_group = group(
    "worker",
    examples=(
        "distributary worker run billing:charge --topic shop.orders    as many processes as are needed",
        "distributary worker run billing:charge --topic shop.orders --min 2 --max 8 --to shop.invoices",
        "distributary worker run billing:charge --topic shop.orders --to shop.invoices --exactly-once",
        "distributary worker list",
        "distributary worker scale shop.orders.charge 4                        four, whatever the lag",
        "distributary worker scale shop.orders.charge 1..8                     by lag again",
        "distributary worker stop shop.orders.charge                           complete its records, end",
    ),
)


@worker_group.command("run")
@click.argument("function", metavar="MODULE:FUNCTION", help="called with each record (distributary.Record)")
@click.option("--topic", required=True, metavar="TOPIC", help="the topic of the records")
@click.option("--group", metavar="GROUP", help="the consumer group (default: TOPIC.FUNCTION)")
@click.option("--name", metavar="NAME", help="for list, scale and stop (default: the group)")
@click.option("--min", type=int, default=1, metavar="N", help="minimum number of workers (default: 1)")
@click.option(
    "--max", type=int, default=0, metavar="N", help="maximum number of workers (default: one a partition)"
)
@click.option(
    "--lag-per-worker",
    type=int,
    default=1_000,
    metavar="N",
    help="records of lag for which one more worker starts (default: 1000)",
)
@click.option(
    "--calm",
    type=float,
    default=30.0,
    metavar="SECONDS",
    help="a worker stops when half of them were enough for this time (default: 30)",
)
@click.option("--to", default="", metavar="TOPIC", help="where to write what the function returns")
@click.option(
    "--from",
    "start",
    type=click.Choice(("earliest", "latest")),
    default="earliest",
    help="where a new group starts (default: earliest)",
)
@click.option("--retries", type=int, default=3, metavar="N", help="retries after a failure (default: 3)")
@click.option(
    "--backoff",
    type=float,
    default=0.5,
    metavar="SECONDS",
    help="time before the first retry, doubled for each further one (default: 0.5)",
)
@click.option(
    "--dead-letters", metavar="TOPIC", help="where records go that still fail (default: TOPIC.dead-letters)"
)
@click.option("--exactly-once", is_flag=True, help="write to --to exactly once, by transactions")
@click.option(
    "--batch", type=int, default=100, metavar="N", help="maximum records in a transaction (default: 100)"
)
@click.option("--force", is_flag=True, help="ignore the naming convention and other applications' groups")
@cluster_options
def run_worker(args: Args) -> int:
    """Run a function for every record, until Ctrl-C."""
    from distributary.workers.autoscaler import Autoscaler, WorkerLimits
    from distributary.workers.run_workers import run_workers
    from distributary.workers.worker_process import WorkerSpec

    _check(args)
    config = load_config(args, required=False)
    cluster = cluster_of(args, config)
    group = args.group or f"{args.topic}.{args.function.rpartition(':')[2].strip('_').replace('_', '-')}"
    kafka = cluster.kafka
    spec = WorkerSpec(
        function=args.function,
        topic=args.topic,
        group=group,
        properties={**kafka.properties, "bootstrap.servers": kafka.bootstrap_servers},
        to=args.to,
        dead_letters=args.dead_letters or f"{args.topic}.dead-letters",
        start=args.start,
        retries=args.retries,
        backoff=args.backoff,
        exactly_once=args.exactly_once,
        batch=args.batch,
    )
    pool = run_workers(
        cluster=cluster,
        spec=spec,
        limits=WorkerLimits(args.min, args.max),
        autoscaler=Autoscaler(args.lag_per_worker, args.calm),
        data_dir=config.data_dir,
        name=args.name or group,
        report=lambda line: print(f"{args.name or group}: {line}", file=sys.stderr, flush=True),
        convention=config.naming.groups,
        force=args.force,
    )
    if args.json:
        print_json(_as_json(pool))
    else:
        print(f"{pool.name}: {pool.done:,} records done, {pool.dead:,} of them dead letters", file=sys.stderr)
    return 0


def _check(args: Args) -> None:
    if args.exactly_once and not args.to:
        raise UsageError(
            "--exactly-once requires --to TOPIC", hint="Transactions make the output exactly once"
        )
    invalid = {
        "--min": args.min < 0,
        "--max": args.max < 0 or 0 < args.max < args.min,
        "--lag-per-worker": args.lag_per_worker < 1,
        "--calm": args.calm < 0,
        "--retries": args.retries < 0,
        "--backoff": args.backoff <= 0,
        "--batch": args.batch < 1,
    }
    for name, is_invalid in invalid.items():
        if is_invalid:
            value = getattr(args, name[2:].replace("-", "_"))
            raise UsageError(f"{name} {value} is out of range", hint="See: distributary worker run --help")


@worker_group.command("list")
def list_workers(args: Args) -> int:
    """List the workers that run here."""
    from distributary.workers.pool_state import running_pools

    found = running_pools(load_config(args, required=False).data_dir)
    rows = [
        (
            one.name,
            one.function,
            one.topic,
            f"{one.workers} of {one.limits}",
            "-" if one.lag is None else f"{one.lag:,}",
            f"{one.done:,}",
            f"{one.dead:,}",
            str(one.restarts),
            str(one.pid),
        )
        for one in found
    ]
    heads = ("NAME", "FUNCTION", "TOPIC", "WORKERS", "LAG", "DONE", "DEAD", "RESTARTS", "PID")
    print_rows(args, [_as_json(one) for one in found], rows, heads)
    return 0


@worker_group.command("scale")
@click.argument("name", metavar="NAME", help="as `worker list` shows it")
@click.argument("limits", metavar="N|MIN..MAX", help="this many; or by lag, between these")
def scale_worker(args: Args) -> int:
    """Set the number of processes."""
    from distributary.workers import pool_state
    from distributary.workers.autoscaler import parse_limits

    try:
        limits = parse_limits(args.limits)
    except ValueError as error:
        raise UsageError(str(error)) from None
    folder = load_config(args, required=False).data_dir
    pool_state.running_pool(folder, args.name)
    request = pool_state.ScaleRequest(uuid.uuid4().hex, limits.minimum, limits.maximum)
    pool_state.request_scale(folder, args.name, request)
    deadline = time.monotonic() + _WAIT
    while (
        pool := pool_state.running_pool(folder, args.name)
    ).request != request.id or pool.workers != pool.target:
        if time.monotonic() > deadline:
            raise UsageError(f"{args.name} is not scaled after {_WAIT:g} s", hint="See what it prints")
        time.sleep(0.05)
    if args.json:
        print_json(_as_json(pool))
    else:
        print(f"{pool.name}: {pool.workers} workers, of {pool.limits} ({pool.partitions} partitions)")
    return 0


@worker_group.command("stop")
@click.argument("name", metavar="NAME", help="as `worker list` shows it")
def stop_worker(args: Args) -> int:
    """Let the workers complete their current records, then stop them."""
    import contextlib

    import psutil

    from distributary.stack.stack_file import is_process
    from distributary.workers import pool_state

    pool = pool_state.running_pool(load_config(args, required=False).data_dir, args.name)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pool.pid).terminate()
    deadline = time.monotonic() + _WAIT
    while is_process(pool.pid, pool.birth):
        if time.monotonic() > deadline:
            raise UsageError(f"{pool.name} (pid {pool.pid}) has not ended after {_WAIT:g} s")
        time.sleep(0.05)
    if args.json:
        print_json({"stopped": pool.name})
    else:
        print(f"{pool.name}: stopped")
    return 0


def _as_json(pool: PoolState) -> dict[str, Any]:
    return {
        "name": pool.name,
        "function": pool.function,
        "topic": pool.topic,
        "group": pool.group,
        "min": pool.minimum,
        "max": pool.maximum or None,
        "workers": pool.workers,
        "partitions": pool.partitions,
        "lag": pool.lag,
        "done": pool.done,
        "dead": pool.dead,
        "restarts": pool.restarts,
        "pid": pool.pid,
    }
