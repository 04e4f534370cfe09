"""What each scenario runs with: the full measurement, and a short one that only shows that it works."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Latency:
    """Seconds are of load; ``crossing_*`` is the run over ends of Real-Time Mode batches (0: left out)."""

    keys: int = 100
    partitions: int = 2
    warm_up: float = 90.0
    rates: tuple[int, ...] = (1000, 20)
    seconds: float = 60.0
    settle: float = 5.0
    crossing_batch: float = 20.0
    crossing_seconds: float = 60.0


@dataclass(frozen=True)
class Live:
    """Rates are tried upwards until one cannot be held; ``bound`` is how far behind it may be, in seconds."""

    keys: int = 10_000
    partitions: int = 2
    queries: int = 100
    value_bytes: int = 200
    warm_up_rate: int = 4_000
    warm_up: float = 30.0
    rates: tuple[int, ...] = (9_000, 10_500, 12_000, 15_000)
    seconds: float = 60.0
    bound: float = 2.0


@dataclass(frozen=True)
class CatchUp:
    """``limit`` is how long catching up may take, in seconds."""

    records: int = 1_000_000
    keys: int = 10_000
    partitions: int = 2
    value_bytes: int = 200
    limit: float = 300.0


@dataclass(frozen=True)
class FanOut:
    """``rate`` is publications a second; servers take turns, ``rounds`` each, of ``seconds``."""

    connections: int = 1_000
    payload_bytes: int = 150
    rate: int = 40
    rounds: int = 3
    seconds: float = 10.0
    warm_up: float = 3.0


@dataclass(frozen=True)
class Match:
    """``few`` is what the cost at ``queries`` is compared with; the median of ``rounds`` counts."""

    queries: int = 100_000
    few: int = 1_000
    changes: int = 5_000
    rounds: int = 15


@dataclass(frozen=True)
class Rows:
    """``rows`` are those of the view; each kind of query is asked ``rounds`` times, and the median counts."""

    rows: int = 100_000
    rounds: int = 5


@dataclass(frozen=True)
class Pace:
    """``rate`` is changes a second; ``readers`` have a pace and read nothing, or very little."""

    readers: int = 100
    keys: int = 50
    value_bytes: int = 200
    rate: int = 500
    rounds: int = 3
    seconds: float = 10.0
    warm_up: float = 5.0


@dataclass(frozen=True)
class Cycles:
    """Each connection does ``cycles`` in a round; for the weights it holds ``held`` queries at once.

    The view has few ``rows``: reading an initial state is not what is measured.
    """

    connections: int = 100
    cycles: int = 1_000
    rounds: int = 2
    warm_up: int = 20
    held: int = 100
    rows: int = 20
    partitions: int = 2


@dataclass(frozen=True)
class Hostile:
    """``rate`` is records a second; with and without the hostile user take turns, ``rounds`` of each path."""

    keys: int = 100
    partitions: int = 2
    rate: int = 500
    warm_up: float = 60.0
    settle: float = 2.0
    seconds: float = 6.0
    rounds: int = 5


@dataclass(frozen=True)
class Spec:
    """All scenarios."""

    latency: Latency = field(default_factory=Latency)
    live: Live = field(default_factory=Live)
    catchup: CatchUp = field(default_factory=CatchUp)
    fanout: FanOut = field(default_factory=FanOut)
    match: Match = field(default_factory=Match)
    rows: Rows = field(default_factory=Rows)
    pace: Pace = field(default_factory=Pace)
    cycles: Cycles = field(default_factory=Cycles)
    hostile: Hostile = field(default_factory=Hostile)


FULL = Spec()

QUICK = Spec(
    Latency(warm_up=4.0, rates=(200, 20), seconds=4.0, settle=1.0, crossing_seconds=0.0),
    Live(keys=500, warm_up_rate=300, warm_up=3.0, rates=(500,), seconds=6.0, bound=4.0),
    CatchUp(records=30_000, keys=500, limit=90.0),
    FanOut(connections=100, rate=20, rounds=2, seconds=2.0, warm_up=0.5),
    Match(queries=4_000, changes=300, rounds=2),
    Rows(rows=5_000, rounds=1),
    Pace(readers=20, rate=200, rounds=1, seconds=2.0, warm_up=1.0),
    Cycles(connections=10, cycles=100, held=50),
    Hostile(rate=100, warm_up=3.0, settle=0.5, seconds=1.0, rounds=1),
)
