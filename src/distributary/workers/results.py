"""What a worker's function may give back, as records for another topic. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import GeneratorType
from typing import Any, NamedTuple

from distributary.client.record import Headers, Record


class Out(NamedTuple):
    """A record to be written. Without a topic it goes to ``--to``; a ``value`` of None is a tombstone."""

    value: bytes | str | None
    key: bytes | str | None = None
    headers: Headers = ()
    topic: str = ""


def outs(result: Any, record: Record) -> Iterator[Out]:
    """The records that a result stands for, with the key of the record that it is of.

    None is none; bytes and text are a value; what a generator yields are several; an `Out` is as it says;
    anything else is written as JSON. Raises TypeError for what is not.
    """
    if result is None:
        return
    if isinstance(result, GeneratorType):
        for one in result:
            yield from outs(one, record)
    elif isinstance(result, Out):
        yield result
    elif isinstance(result, bytes | str):
        yield Out(result, record.key)
    else:
        try:
            yield Out(json.dumps(result, separators=(",", ":"), ensure_ascii=False), record.key)
        except (TypeError, ValueError) as error:
            raise TypeError(f"it gave back a {type(result).__name__}, which is no record: {error}") from None
