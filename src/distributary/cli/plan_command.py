"""``distributary plan``: how many partitions and brokers for a given rate, retention and size."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from distributary.cli.output import columns, print_json
from distributary.errors import UsageError

NAME = "plan"
HELP = "reckon how many partitions and brokers a topic needs"
EXAMPLES = (
    "distributary plan --rate 50000 --size 500 --retention 7d",
    "distributary plan --rate 50000 --size 500 --retention 7d --consumer-rate 4000 --broker-disk 2TiB",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from distributary.kafka.capacity import Load, size

    one = Load(1, 1, 1)
    parser.description = (
        f"{parser.description}\nShows its arithmetic, so that you can put your own figures in."
    )
    parser.add_argument("--rate", type=float, required=True, metavar="N", help="records a second, on average")
    parser.add_argument(
        "--size", required=True, metavar="BYTES", help="of a record, compressed as it is kept: 500, 2k"
    )
    parser.add_argument("--retention", required=True, metavar="TIME", help="how long it is kept: 12h, 7d")
    parser.add_argument(
        "--replication-factor",
        type=int,
        default=one.replication,
        metavar="N",
        help=f"(default: {one.replication})",
    )
    parser.add_argument(
        "--readers",
        type=int,
        default=one.readers,
        metavar="N",
        help="consumer groups that read all of it (default: 1)",
    )
    parser.add_argument(
        "--headroom",
        type=float,
        default=one.headroom,
        metavar="X",
        help=f"peaks, as times the average (default: {one.headroom:g})",
    )
    parser.add_argument(
        "--consumer-rate", type=float, metavar="N", help="records/s that one consumer manages"
    )
    sizes = {
        "partition-rate": (one.partition_rate, "bytes/s that one partition takes"),
        "broker-rate": (one.broker_rate, "bytes/s that one broker moves"),
        "broker-disk": (one.broker_disk, "bytes of disk of one broker"),
    }
    for name, (value, text) in sizes.items():
        shown = size(value).replace(" ", "")
        parser.add_argument(f"--{name}", default=shown, metavar="BYTES", help=f"{text} (default: {shown})")
    parser.add_argument(
        "--disk-fill",
        type=float,
        default=one.disk_fill,
        metavar="X",
        help=f"how full disks may be (default: {one.disk_fill:g})",
    )
    parser.add_argument(
        "--broker-partitions",
        type=int,
        default=one.broker_partitions,
        metavar="N",
        help=f"replicas that one broker may hold (default: {one.broker_partitions})",
    )


def run(args: argparse.Namespace) -> int:
    """Print the arithmetic and its result."""
    from distributary.config import parse_duration
    from distributary.kafka.capacity import Load, plan, size

    answer = plan(
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
        steps = [step._asdict() for step in answer.steps]
        print_json(
            {"partitions": answer.partitions, "brokers": answer.brokers, "disk": answer.disk, "steps": steps}
        )
        return 0
    print(columns(answer.steps, ("WHAT", "HOW", "RESULT")))
    print(
        f"\n{answer.partitions} partitions on {answer.brokers} brokers, {size(answer.disk)} of disk in all. "
        "Add a broker if one may fail at a peak."
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
