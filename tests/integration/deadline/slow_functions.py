"""Functions for a process with a deadline."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

from distributary.errors import TopicError
from distributary.gateway.error_codes import api_error


def echo(value: Any) -> Any:
    return value


def evil(*_: Any) -> bool:
    return re.match("^(a+)+$", "a" * 60 + "!") is not None


def write_pid_and_hang(path: str) -> None:
    with open(path, "w") as file:
        file.write(f"{os.getpid()}\n")
    evil()


def pid() -> int:
    return os.getpid()


def environment() -> dict[str, str]:
    return dict(os.environ)


def fail(kind: str) -> None:
    match kind:
        case "value":
            raise ValueError("it does not fit")
        case "gateway":
            raise api_error(42203, "it is rejected", "send another")
        case "topic":
            raise TopicError("no topic", hint="make one")
        case "memory":
            bytearray(1 << 40)
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "print":
            print("in the way")
        case _:
            raise KeyError(kind)
