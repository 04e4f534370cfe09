"""``python -m distributary.deadline``: executes calls from stdin and writes results to stdout, until EOF.

A call and its result are four bytes of length and msgpack. The kernel kills the process if a call uses more
processor time than its deadline, wherever it is then.
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
"""If processors are busy, checks wait for everything else: their duration is not known in advance."""
MAX_MEMORY = 2 << 30
"""Bytes of address space: a few bytes of data can stand for any number of values."""


def main() -> None:
    """Execute calls."""
    # Ctrl-C in a terminal is for the parent; this process ends when its stdin does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    # What a library prints must not get between the results.
    with os.fdopen(os.dup(1), "wb", buffering=0) as out:
        os.dup2(2, 1)
        source = sys.stdin.buffer
        while call := _read(source):
            result = msgspec.msgpack.encode(_execute(*msgspec.msgpack.decode(call)))
            _write(out, len(result).to_bytes(4, "big") + result)


def _execute(module: str, name: str, args: list[Any], seconds: float) -> tuple[Any, ...]:
    # The import may be slow, so it does not count.
    function = getattr(importlib.import_module(module), name)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return "result", function(*args)
    except DistributaryError as error:
        code = error.error_code if isinstance(error, GatewayError) else 0
        return "error", type(error).__name__, error.message, error.hint, code
    except ValueError as error:
        return "value-error", str(error)
    except MemoryError:
        return "failed", "it needs too much memory"
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
