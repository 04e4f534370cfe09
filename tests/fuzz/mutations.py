"""Inputs: random bytes, mutated examples, and mutated JSON inside of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

MAX_BYTES = 65_536
"""Bytes of an input: the most that servers accept in one message."""

HARD_WORDS = (
    *(
        b"null",
        b"true",
        b"NaN",
        b"Infinity",
        b"-0",
        b"1e999",
        b"1e-999",
        b"9" * 5_000,
        b"9223372036854775808",
    ),
    *(
        b"-9223372036854775809",
        b"0x10",
        b"1_0",
        b'""',
        b'"\\ud800"',
        b'"\\u0000"',
        b"\xff",
        b"\xed\xa0\x80",
        b"\0",
    ),
    *(
        b"[" * 3_000,
        b"{" * 300,
        b'{"a":' * 2_000,
        b"(" * 2_000,
        b"not " * 2_000,
        b"`",
        b"'",
        b'"',
        b"\\",
        b"%",
    ),
    *(
        b"%00",
        b"%2F",
        b"%ff",
        b"%u0041",
        b"&",
        b"?",
        b"#",
        b"/",
        b"..",
        b";",
        b",",
        b":",
        b"\r\n",
        b"\n",
        b"\n\n",
    ),
    *(
        b"=",
        b"*",
        b"$",
        b"{}",
        b"[]",
        "\u20ac".encode(),
        "\U0001f600".encode(),
        "\u202e".encode(),
        b" " * 1_000,
    ),
    *(
        b"__proto__",
        b"-----BEGIN",
        b"sha256:",
        b"where",
        b"key",
        b"1970-01-01T00:00:00Z",
        b"now()",
        b"a" * 20_000,
    ),
)
"""Inputs that are hard for parsers."""

Make = Callable[[Random], bytes]


def mutate(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Mutate an example a little, or a lot."""
    data = bytearray(random.choice(corpus))
    if random.random() < 0.3:
        data = bytearray(mutate_json(random, bytes(data)))
    for _ in range(1 << random.randrange(5) if random.random() < 0.8 else 1):
        at = random.randrange(len(data) + 1)
        match random.randrange(8):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << random.randrange(8)
            case 1:
                del data[at : at + random.choice((1, 1, 2, 5, 50))]
            case 2:
                data[at:at] = random.choice(HARD_WORDS)
            case 3:
                data[at:at] = random.randbytes(random.choice((1, 2, 8)))
            case 4:
                data[at:at] = data[at : at + random.choice((1, 4, 30))] * random.choice((1, 2, 100))
            case 5:
                other = random.choice(corpus)
                start = random.randrange(len(other) + 1)
                data[at:] = other[start:]
            case 6:
                end = min(len(data), at + random.randrange(1, 9))
                data[at:end] = random.choice(HARD_WORDS)
            case _:
                data[at:at] = str(random.choice((0, 1, -1, 2**31, 2**32, 2**63, 2**64, 1.5))).encode()
    return bytes(data[:MAX_BYTES])


def mutate_json(random: Random, data: bytes) -> bytes:
    """Mutate values, names and nesting of the JSON at the end of an input, if there is any."""
    start = min((at for at in (data.find(b"{"), data.find(b"[")) if at >= 0), default=-1)
    if start < 0:
        return data
    try:
        document = json.loads(data[start:])
    except (ValueError, RecursionError):
        return data
    try:
        return data[:start] + json.dumps(_mutate_value(random, document, 0)).encode()
    except RecursionError:
        return data


def _mutate_value(random: Random, value: Any, depth: int) -> Any:
    if random.random() < 0.15:
        return any_json(random)
    if isinstance(value, dict):
        found = {name: _mutate_value(random, inner, depth + 1) for name, inner in value.items()}
        if found and random.random() < 0.2:
            found.pop(random.choice(list(found)))
        if random.random() < 0.1:
            found[any_text(random)] = any_json(random)
        return found
    if isinstance(value, list):
        found_list = [_mutate_value(random, inner, depth + 1) for inner in value]
        return found_list * random.choice((1, 1, 1, 0, 2, 50)) if depth < 3 else found_list
    return value


def any_text(random: Random) -> str:
    """Return any string, even invalid Unicode."""
    if random.random() < 0.4:
        return random.choice(HARD_WORDS)[:2_000].decode("utf-8", "replace")
    return "".join(
        chr(random.choice((random.randrange(32, 127), random.randrange(0x11000))))
        for _ in range(random.randrange(12))
    )


def any_json(random: Random, depth: int = 0) -> Any:
    """Return a JSON value of any type."""
    match random.randrange(9 if depth < 4 else 6):
        case 0:
            return None
        case 1:
            return random.choice((True, False))
        case 2:
            return random.choice((0, -1, 1, 2**31, 2**53, 2**63, -(2**63), 10**30, random.randrange(100)))
        case 3:
            return random.choice((0.0, -0.0, 1.5, 1e308, 1e-308, float("inf"), float("nan")))
        case 4 | 5:
            return any_text(random)
        case 6:
            return [any_json(random, depth + 1) for _ in range(random.randrange(4))]
        case 7:
            return {any_text(random): any_json(random, depth + 1) for _ in range(random.randrange(4))}
        case _:
            value: Any = any_json(random, depth + 1)
            for _ in range(random.choice((1, 10, 400))):
                value = [value]
            return value


def maker(corpus: Sequence[bytes], make: Make | None) -> Make:
    """Mix the three ways: a tenth random bytes, the rest mutated examples and structured inputs."""

    def one(random: Random) -> bytes:
        chance = random.random()
        if chance < 0.1:
            return random.randbytes(random.choice((0, 1, 2, 5, 20, 200)))
        if make is not None and chance < 0.5:
            with contextlib.suppress(RecursionError):  # json cannot encode deeply nested values
                return make(random)[:MAX_BYTES]
        return mutate(random, corpus)

    return one
