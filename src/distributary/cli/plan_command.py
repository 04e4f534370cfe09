"""``distributary plan``: estimate partitions and brokers for a given rate, retention and size."""

from __future__ import annotations

from collections.abc import Callable

import click

from distributary.cli.command_line import Args, columns, command, print_json
from distributary.errors import UsageError
from distributary.kafka.capacity import Load, size

_DEFAULT = Load(1, 1, 1)


def _number(name: str, default: float, text: str) -> Callable[[Callable[[Args], int]], Callable[[Args], int]]:
    """An option that is a number, with its default in the help."""
    shown = f"{text} (default: {default:g})"
    return click.option(name, type=type(default), default=default, metavar="N", help=shown)


def _bytes(name: str, default: float, text: str) -> Callable[[Callable[[Args], int]], Callable[[Args], int]]:
    """An option that is a number of bytes, with its default in the help."""
    shown = size(default).replace(" ", "")
    return click.option(name, default=shown, metavar="BYTES", help=f"{text} (default: {shown})")


@command(
    "plan",
    details="Shows the arithmetic, so that you can use your own figures.",
    examples=(
        "distributary plan --rate 50000 --size 500 --retention 7d",
        "distributary plan --rate 50000 --size 500 --retention 7d --consumer-rate 4000 --broker-disk 2TiB",
    ),
)
@click.option("--rate", type=float, required=True, metavar="N", help="records a second, on average")
@click.option("--size", required=True, metavar="BYTES", help="of a record, compressed: 500, 2k")
@click.option("--retention", required=True, metavar="TIME", help="how long records are kept: 12h, 7d")
@_number("--replication-factor", _DEFAULT.replication, "replicas of each partition")
@_number("--readers", _DEFAULT.readers, "consumer groups that read the whole topic")
@_number("--headroom", _DEFAULT.headroom, "peak rate as a multiple of the average")
@click.option("--consumer-rate", type=float, metavar="N", help="records a second that one consumer handles")
@_bytes("--partition-rate", _DEFAULT.partition_rate, "bytes a second of one partition")
@_bytes("--broker-rate", _DEFAULT.broker_rate, "bytes a second of one broker")
@_bytes("--broker-disk", _DEFAULT.broker_disk, "bytes of disk of one broker")
@_number("--disk-fill", _DEFAULT.disk_fill, "how full disks may become")
@_number("--broker-partitions", _DEFAULT.broker_partitions, "replicas that one broker may have")
def plan_command(args: Args) -> int:
    """Print the arithmetic and its result."""
    from distributary.config import parse_duration
    from distributary.kafka.capacity import estimate_capacity

    estimate = estimate_capacity(
        Load(
            rate=args.rate,
            size=_read("--size", args.size, _size),
            retention=_read("--retention", args.retention, parse_duration),
            replication=args.replication_factor,
            readers=args.readers,
            headroom=args.headroom,
            partition_rate=_read("--partition-rate", args.partition_rate, _size),
            consumer_rate=args.consumer_rate,
            broker_rate=_read("--broker-rate", args.broker_rate, _size),
            broker_disk=_read("--broker-disk", args.broker_disk, _size),
            disk_fill=args.disk_fill,
            broker_partitions=args.broker_partitions,
        )
    )
    if args.json:
        steps = [step._asdict() for step in estimate.steps]
        print_json(
            {
                "partitions": estimate.partitions,
                "brokers": estimate.brokers,
                "disk": estimate.disk,
                "steps": steps,
            }
        )
        return 0
    print(columns(estimate.steps, ("WHAT", "HOW", "RESULT")))
    print(
        f"\n{estimate.partitions} partitions on {estimate.brokers} brokers, {size(estimate.disk)} of disk in "
        "total. Add a broker if one may fail at a peak."
    )
    return 0


def _size(text: str) -> float:
    from distributary.config import parse_size

    plain = text.strip()
    scale = 1024 if plain.lower().endswith(("tib", "t")) else 1
    if scale > 1:
        plain = plain.lower().removesuffix("tib").removesuffix("t").strip() + "GiB"
    return parse_size(int(plain) if plain.isdigit() else plain) * scale


def _read(name: str, text: str, reader: Callable[[str], float]) -> float:
    try:
        return reader(text)
    except ValueError as error:
        raise UsageError(f"{name} {text}: {error}") from None
