"""Keys and values by their schema, for requests: at once where that is cheap, else with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from distributary.deadline import Deadline
from distributary.errors import CheckFailed, ChecksBusy
from distributary.gateway.error_codes import RestCode, api_error
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.rest_proxy import serialization
from distributary.gateway.rest_proxy.serialization import KIND_OF, Known
from distributary.kafka.schema_cost import is_cheap

_RECORDS = 100
_BYTES = 65_536
"""What is checked in one go: the deadline is for that much, and the event loop turns in between."""


class Converter:
    """Converts for one user: what is slow waits for that user's other slow ones, and nobody else's."""

    def __init__(self, deadline: Deadline, user: str) -> None:
        self._deadline = deadline
        self._user = user

    async def encode(
        self, format: str, texts: Sequence[bytes], known: Known | None, names: Sequence[str]
    ) -> list[bytes | None]:
        """Turn the JSON of keys or values into bytes, as `formats.encode` does; ``names`` are for messages.

        Raises CheckTooLong, CheckFailed or ChecksBusy besides.
        """
        found: list[bytes | None] = []
        for begin, end in _portions(texts):
            chosen = texts[begin:end], names[begin:end]
            if known is None or all(is_cheap(known.schema.cost, text) for text in chosen[0]):
                found += encode_texts(format, *chosen, known)
                await asyncio.sleep(0)
            else:
                schema = (known.id, known.schema.kind, known.schema.text)
                what = names[begin] if end - begin == 1 else f"{names[begin]}, or one up to {names[end - 1]},"
                found += await self._deadline.run(
                    encode_texts, format, *chosen, schema, what=what, owner=self._user
                )
        return found

    async def decode(
        self, format: str, data: bytes | None, find: Callable[[int], Schema | None], where: str
    ) -> msgspec.Raw:
        """Turn the bytes of a key or value into the JSON of a body, as `formats.decode` does."""
        number = serialization.schema_id(data) if format in KIND_OF else None
        schema = find(number) if number is not None else None
        if data is None or schema is None or format != "avro" or is_cheap(schema.cost, data):
            return serialization.decode(format, data, find, where)
        try:
            told = await self._deadline.run(
                decode_data, data, schema.kind, schema.text, where, what=where, owner=self._user
            )
        except ChecksBusy as error:
            raise api_error(RestCode.NO_CONSUMER_AVAILABLE, error.message, error.hint) from None
        except CheckFailed as error:
            hint = "read it as binary, or begin behind it"
            raise api_error(RestCode.CONVERSION_FAILED, error.message, hint) from None
        return msgspec.Raw(told)


def encode_texts(
    format: str, texts: Sequence[bytes], names: Sequence[str], known: Sequence[object] | None
) -> list[bytes | None]:
    """Turn the JSON of keys or values into bytes; for a process with a deadline, too."""
    if known is not None and not isinstance(known, Known):
        number, kind, text = known
        known = Known(int(str(number)), Schema(str(kind), str(text)))
    return [serialization.encode(format, text, known, name) for text, name in zip(texts, names, strict=True)]


def decode_data(data: bytes, kind: str, text: str, where: str) -> bytes:
    """Turn Avro into JSON; for a process with a deadline."""
    return bytes(serialization.decode("avro", data, lambda number: Schema(kind, text), where))


def _portions(texts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    begin, size = 0, 0
    for at, text in enumerate(texts):
        if at > begin and (at - begin >= _RECORDS or size + len(text) > _BYTES):
            yield begin, at
            begin, size = at, 0
        size += len(text)
    if begin < len(texts):
        yield begin, len(texts)
