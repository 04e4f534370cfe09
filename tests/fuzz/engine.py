"""Runs targets: counts what they accept and reject, and finds crashes, slow inputs and memory growth."""

from __future__ import annotations

import contextlib
import gc
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random
from types import FrameType

import psutil

from tests.fuzz.mutations import Make, maker

SLOW = 1.0
"""Seconds of processor time that one input may take."""
HUNG = 20.0
"""Elapsed seconds after which an input is aborted."""
GROWTH = 64 << 20
WARM = 0.2
"""Fraction of the inputs before memory is first measured: caches fill, modules are imported."""

Run = Callable[[bytes], bool]
"""Parses an input; true if it was accepted, false if it was rejected. An exception is a crash."""


@dataclass(frozen=True)
class Target:
    """One parser, or several that read the same bytes.

    ``reads`` names the modules that it covers, ``corpus`` has examples that are accepted, ``make`` creates
    structured inputs. ``share`` is its part of all inputs: slow targets have less.
    """

    name: str
    open: Callable[[], AbstractContextManager[Run]]
    corpus: Sequence[bytes]
    reads: Sequence[str]
    make: Make | None = None
    share: float = 1.0


@dataclass
class Result:
    """The outcome of a target's inputs."""

    target: str
    inputs: int = 0
    accepted: int = 0
    rejected: int = 0
    slowest: float = 0.0
    slowest_input: bytes = b""
    growth: int = 0
    failure: str = ""
    crash: bytes | None = None
    seconds: float = 0.0
    trace: BaseException | None = field(default=None, repr=False)


class Hung(BaseException):
    """An input took too long. Not an Exception, so that no parser catches it."""


def without_resources(run: Run) -> Callable[[], AbstractContextManager[Run]]:
    """Open a target that needs no resources."""
    return lambda: contextlib.nullcontext(run)


def fuzz(target: Target, inputs: int, seed: int, seconds: float = 0.0) -> Result:
    """Run a target, for at most ``seconds``. Stops at the first failure, and shrinks its input."""
    random = Random(f"{seed} {target.name}")
    make = maker(target.corpus, target.make)
    result = Result(target.name)
    process = psutil.Process()
    before, began = 0, time.monotonic()
    with target.open() as run, _alarm():
        for example in target.corpus:
            _one(run, example, result)
            if result.failure:
                result.failure = f"example of the corpus: {result.failure}"
                return result
        while result.inputs < inputs and not (seconds and time.monotonic() - began > seconds):
            # Warm-up is a fraction of the inputs, or of the time if that is limited.
            part = max(result.inputs / inputs, (time.monotonic() - began) / seconds if seconds else 0.0)
            if not before and part >= WARM:
                gc.collect()
                before = process.memory_info().rss
            _one(run, make(random), result)
            if result.failure:
                result.crash = shrink(run, result.crash or b"", result)
                break
        gc.collect()
        result.growth = process.memory_info().rss - before if before else 0
        if not result.failure and result.growth > GROWTH:
            result.failure = f"memory grew by {result.growth >> 20} MB after the warm-up"
    result.seconds = time.monotonic() - began
    return result


def _one(run: Run, data: bytes, result: Result) -> None:
    result.inputs += 1
    began = time.process_time()
    try:
        with _limit():
            accepted = run(data)
    except Hung:
        result.failure, result.crash = f"did not end within {HUNG:g} s", data
        return
    except Exception as error:
        result.failure, result.crash, result.trace = f"{type(error).__name__}: {error}"[:300], data, error
        return
    took = time.process_time() - began
    result.accepted += accepted
    result.rejected += not accepted
    if took > result.slowest:
        result.slowest, result.slowest_input = took, data
    if took > SLOW:
        result.failure, result.crash = f"took {took:.1f} s", data


def shrink(run: Run, data: bytes, failed: Result, tries: int = 2_000) -> bytes:
    """Remove pieces, large ones first, as long as the same kind of failure remains."""
    kind = _kind(failed.failure)
    budget = 60.0
    began = time.monotonic()
    size = len(data) // 2
    while size and tries and time.monotonic() - began < budget:
        at = 0
        while at < len(data) and tries and time.monotonic() - began < budget:
            smaller = data[:at] + data[at + size :]
            tries -= 1
            probe = Result(failed.target)
            _one(run, smaller, probe)
            if probe.failure and _kind(probe.failure) == kind:
                data = smaller
            else:
                at += size
        size //= 2
    return data


def _kind(failure: str) -> str:
    return "slow" if failure.startswith(("took", "did not end")) else failure.partition(":")[0]


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _limit() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, HUNG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
