"""``python -m distributary.workers``: one worker, as its pool starts it.

The first line of its standard input says what to do; the end of that input stops it, so also when the pool
was killed. It prints its progress to standard output, a JSON object a line.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

import msgspec

from distributary.errors import BadFunction, ConfigError, DistributaryError, KafkaRefused, TopicMissing
from distributary.service import ExitCode
from distributary.workers.record_handler import add_cwd_to_path
from distributary.workers.worker_process import Worker, WorkerSpec, one_line


def main() -> int:
    """Work until stopped; returns the exit code, FINAL for an error that would happen again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pool, which stops its workers
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerSpec)
    logging.basicConfig(format=f"worker {spec.slot}: %(message)s", level=logging.WARNING, stream=sys.stderr)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()
    add_cwd_to_path()
    try:
        Worker(spec, stop, _progress_printer()).run()
    except DistributaryError as error:
        print(f"worker {spec.slot}: {one_line(error)}", file=sys.stderr)
        is_final = isinstance(error, BadFunction | ConfigError | TopicMissing | KafkaRefused)
        return ExitCode.FINAL if is_final else ExitCode.FAILED
    return ExitCode.OK


def _stop_at_end_of_input(stop: threading.Event) -> None:
    # Not by sys.stdin, whose lock this thread would still hold when the interpreter shuts down.
    while os.read(0, 4096):
        pass
    stop.set()


def _progress_printer() -> Callable[[int, int], None]:
    """Reserve standard output for the progress; what the function prints goes to standard error."""
    out = os.dup(1)
    os.dup2(2, 1)

    def report(done: int, dead: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # the pool is gone, and this process is about to end
            os.write(out, json.dumps({"done": done, "dead": dead}).encode() + b"\n")

    return report


if __name__ == "__main__":
    sys.exit(main())
