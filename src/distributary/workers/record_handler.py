"""How one record passes through the user's function: loading the function, retries, and what it returns."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import sys
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any, NamedTuple

from distributary.client.record import Headers, Record
from distributary.config.problems import nearest
from distributary.errors import BadFunction

log = logging.getLogger(__name__)

LONGEST_BACKOFF = 30.0
"""The longest pause before a retry, in seconds."""

Function = Callable[..., Any]


class Out(NamedTuple):
    """A record to write. Without a topic it goes to ``--to``; a ``value`` of None is a tombstone."""

    value: bytes | str | None
    key: bytes | str | None = None
    headers: Headers = ()
    topic: str = ""


def output_records(result: Any, record: Record) -> Iterator[Out]:
    """Convert what the function returned for a record to output records, which get the record's key.

    None is no record, bytes and strings are a value, each item that a generator yields is converted in turn,
    an `Out` is taken as it is, and anything else is written as JSON. Raises TypeError for what JSON has not.
    """
    if result is None:
        return
    if isinstance(result, GeneratorType):
        for one in result:
            yield from output_records(one, record)
    elif isinstance(result, Out):
        yield result
    elif isinstance(result, bytes | str):
        yield Out(result, record.key)
    else:
        try:
            yield Out(json.dumps(result, separators=(",", ":"), ensure_ascii=False), record.key)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"it returned a {type(result).__name__}, which cannot be written as JSON: {error}"
            ) from None


class Outcome(NamedTuple):
    """The result of a record: its output, or why it is a dead letter."""

    outs: tuple[Out, ...] = ()
    reason: str = ""


class Abandoned(Exception):
    """The worker stops while a record waits for its retry: another worker will read it again."""


class RecordHandler:
    """Calls the function, plain or async. For one thread; close it."""

    def __init__(
        self, function: Function, retries: int, backoff: float, pause: Callable[[float], bool]
    ) -> None:
        """``pause`` waits that many seconds, and returns whether the worker is stopping."""
        self._function = function
        self._retries = retries
        self._backoff = backoff
        self._pause = pause
        self._runner: asyncio.Runner | None = None
        """The event loop of an async function, from its first call on."""

    def __call__(self, record: Record) -> Outcome:
        """Call until it returns; raises Abandoned when the worker stops before that."""
        tries = 0
        while True:
            try:
                return Outcome(tuple(output_records(self._call(record), record)))
            except (Exception, SystemExit) as error:  # whatever a user's function raises
                reason = f"{type(error).__name__}: {error}"
            tries += 1
            name = f"{record.topic}/{record.partition}@{record.offset}"
            if tries > self._retries:
                log.warning("%s is a dead letter after %d tries: %s", name, tries, reason)
                return Outcome(reason=reason)
            wait = retry_delay(self._backoff, tries)
            log.warning("%s failed, retrying in %g s: %s", name, wait, reason)
            if self._pause(wait):
                raise Abandoned

    def _call(self, record: Record) -> Any:
        result = self._function(record)
        if inspect.isawaitable(result):
            if self._runner is None:
                self._runner = asyncio.Runner()
            return self._runner.run(_awaited(result))
        return result

    def close(self) -> None:
        """Close the event loop, if there is one."""
        if self._runner is not None:
            self._runner.close()


def retry_delay(first: float, tries: int) -> float:
    """Seconds to wait after that many tries."""
    return min(first * 2.0 ** min(tries - 1, 20), LONGEST_BACKOFF)


async def _awaited(result: Any) -> Any:
    return await result


def load_function(text: str) -> Function:
    """Import the function ``module:function``; raises BadFunction. Modules are found by ``sys.path``."""
    module, colon, name = text.partition(":")
    if not module or not colon or not name:
        raise BadFunction(f"{text!r} is not module:function", hint="For example: billing.orders:charge")
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise BadFunction(
                f"module {error.name!r} not found",
                hint="Start it in the folder that holds the module, or set PYTHONPATH",
            ) from None
        raise BadFunction(f"module {module!r} requires {error.name!r}, which is not installed") from None
    except Exception as error:  # whatever a module does when it is imported
        raise BadFunction(f"module {module!r} cannot be imported: {_describe(error)}") from None
    found = getattr(home, name, None)
    if found is None:
        near = nearest(name, [each for each in dir(home) if callable(getattr(home, each))])
        hint = f"Did you mean {module}:{near}?" if near else f"See {getattr(home, '__file__', module)}"
        raise BadFunction(f"module {module!r} has no {name!r}", hint=hint)
    if not callable(found):
        raise BadFunction(f"{text} is a {type(found).__name__}, not a function")
    _check_arguments(text, found)
    return found  # type: ignore[no-any-return]


def _check_arguments(text: str, found: Function) -> None:
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # a built-in may have no signature
        return
    try:
        signature.bind(object())
    except TypeError:
        raise BadFunction(
            f"{text}{signature} does not take one argument", hint="It is called with the record only"
        ) from None


def add_cwd_to_path() -> None:
    """Make the modules of the current folder importable, as ``python -m`` does."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
