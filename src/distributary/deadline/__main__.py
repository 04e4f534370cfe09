"""``python -m distributary.deadline``: answers calls from stdin on stdout until stdin ends.

A call and its answer are four bytes of length and msgpack. The process is ended by the kernel when a call
takes more of the processor's time than its deadline, wherever it is then.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
from typing import Any, BinaryIO

import msgspec

from distributary.errors import DistributaryError, GatewayError

NICE = 19
"""Where processors are short, checks wait for everything else: nobody knows beforehand how long they take."""
MEMORY = 2 << 30
"""Bytes of addresses: data of a few bytes can stand for any number of values."""


def main() -> None:
    """Answer calls."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # What a library prints must not get between the answers.
    with os.fdopen(os.dup(1), "wb", buffering=0) as out:
        os.dup2(2, 1)
        source = sys.stdin.buffer
        while request := _read(source):
            answer = msgspec.msgpack.encode(_answer(*msgspec.msgpack.decode(request)))
            _write(out, len(answer).to_bytes(4, "big") + answer)


def _answer(module: str, name: str, args: list[Any], seconds: float) -> tuple[Any, ...]:
    function = getattr(importlib.import_module(module), name)  # which may take a while, and is not counted
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return "result", function(*args)
    except DistributaryError as error:
        number = error.number if isinstance(error, GatewayError) else 0
        return "error", type(error).__name__, error.message, error.hint, number
    except ValueError as error:
        return "value-error", str(error)
    except MemoryError:
        return "failed", "it takes too much memory"
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _read(source: BinaryIO) -> bytes:
    head = source.read(4)
    return source.read(int.from_bytes(head, "big")) if len(head) == 4 else b""


def _write(out: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[out.write(view) :]


if __name__ == "__main__":
    main()
