"""``python -m distributary.workers``: one worker, as its supervisor starts it.

It is told what to do by the first line of its standard input, and to finish by that input's end: so also
when its supervisor was killed. On its standard output it tells how far it is, a JSON object a line.
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
from distributary.workers.function_loader import look_here
from distributary.workers.worker_process import Worker, told
from distributary.workers.worker_spec import BAD, Spec


def main() -> int:
    """Work until told to stop: 0 then, `BAD` for what would fail again in the same way, else 1."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor, which lets us finish
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=Spec)
    logging.basicConfig(format=f"worker {spec.slot}: %(message)s", level=logging.WARNING, stream=sys.stderr)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_watch, args=(stop,), daemon=True).start()
    look_here()
    try:
        Worker(spec, stop, _telling()).run()
    except (BadFunction, ConfigError, TopicMissing, KafkaRefused) as error:
        print(f"worker {spec.slot}: {told(error)}", file=sys.stderr)
        return BAD
    except DistributaryError as error:
        print(f"worker {spec.slot}: {told(error)}", file=sys.stderr)
        return 1
    return 0


def _watch(stop: threading.Event) -> None:
    sys.stdin.buffer.read()
    stop.set()


def _telling() -> Callable[[int, int], None]:
    """Keep standard output for telling; what the function prints goes to standard error."""
    out = os.dup(1)
    os.dup2(2, 1)

    def tell(done: int, dead: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # the supervisor is gone, and we are about to go
            os.write(out, json.dumps({"done": done, "dead": dead}).encode() + b"\n")

    return tell


if __name__ == "__main__":
    sys.exit(main())
