"""Which brokers should hold which replicas. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from distributary.errors import UsageError

Layout = Mapping[int, Sequence[int]]
"""The replicas of each partition of a topic; the first is the one that should lead."""


def spread(now: Layout, brokers: Sequence[int], replication: int) -> dict[int, list[int]]:
    """Lay partitions out over brokers: evenly, with as few replicas moved as that takes.

    No broker gets more than its share, rounded up, and no partition two replicas on one broker. Leaders are
    spread likewise. Raises UsageError when there are fewer brokers than replicas.
    """
    wanted = list(dict.fromkeys(brokers))
    if not 1 <= replication <= len(wanted):
        raise UsageError(f"{replication} replicas need as many brokers, and {len(wanted)} are named")
    share = -(-len(now) * replication // len(wanted))
    held: Counter[int] = Counter({broker: 0 for broker in wanted})
    kept: dict[int, list[int]] = {}
    for number in sorted(now):
        kept[number] = []
        for broker in now[number]:
            if broker in held and held[broker] < share and len(kept[number]) < replication:
                kept[number].append(broker)
                held[broker] += 1
    for replicas in kept.values():
        while len(replicas) < replication:
            broker = min((one for one in wanted if one not in replicas), key=lambda one: held[one])
            replicas.append(broker)
            held[broker] += 1
    _level(kept, held, share, now)
    return _led(kept, now)


def _level(layout: dict[int, list[int]], held: Counter[int], share: int, now: Layout) -> None:
    """Move replicas off brokers that have more than their share; those that are to move anyway first.

    There is always one to move: the fullest broker has a partition that the emptiest has not.
    """
    while held[full := max(held, key=lambda one: held[one])] > share:
        empty = min(held, key=lambda one: held[one])
        movable = (number for number, all in layout.items() if full in all and empty not in all)
        replicas = layout[min(movable, key=lambda number: full in now[number])]
        replicas[replicas.index(full)] = empty
        held[full] -= 1
        held[empty] += 1


def _led(layout: dict[int, list[int]], now: Layout) -> dict[int, list[int]]:
    """Put the broker first that leads the fewest; among equals the one that leads now."""
    leads: Counter[int] = Counter()
    found = {}
    for number, replicas in layout.items():
        leader = min(replicas, key=lambda one: (leads[one], one not in now[number][:1]))
        leads[leader] += 1
        found[number] = [leader, *(one for one in replicas if one != leader)]
    return found
