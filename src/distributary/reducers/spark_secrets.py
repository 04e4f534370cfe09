"""How secret properties reach Spark's JVM: by a file that only we can read, not by its command line.

PySpark writes every property of a session on the command line of the JVM that it starts, and that is open to
every user of the machine.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from distributary.config.secrets import mask_property

VARIABLE = "PYSPARK_SUBMIT_ARGS"
_OF_COMMAND_LINES = ("JavaOptions", "ClassPath", "LibraryPath")
"""Ends of names whose values are part of a command line, whichever way they come."""
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def split_secrets(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Part properties into those that may be seen and those that may not, or may hold what may not."""
    shown: dict[str, str] = {}
    secret: dict[str, str] = {}
    for name, text in properties.items():
        plain = name.endswith(_OF_COMMAND_LINES) or mask_property(name, text) == text
        (shown if plain else secret)[name] = text
    return shown, secret


@contextlib.contextmanager
def handed_over(properties: Mapping[str, str]) -> Iterator[None]:
    """Have a JVM that PySpark starts in the meantime read these properties from a file.

    The file is of mode 0600, and gone afterwards. Properties of the user's own spark-defaults.conf still
    count. Spark drops spaces at the ends of a value that it reads from a file.
    """
    if not properties:
        yield
        return
    before = os.environ.get(VARIABLE)
    handle, name = tempfile.mkstemp(prefix="distributary-spark-", suffix=".conf")  # of mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.writelines(f"{_escaped(key)}={_escaped(text)}\n" for key, text in properties.items())
        ours = f"--properties-file {shlex.quote(name)} --load-spark-defaults"
        os.environ[VARIABLE] = f"{ours} {before or 'pyspark-shell'}"
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before
        Path(name).unlink(missing_ok=True)


def _escaped(text: str) -> str:
    """Write a key or value as java.util.Properties reads it."""
    return "".join(
        _ESCAPES.get(char) or (f"\\{char}" if char in " =:#!" else char) if char.isascii() else _utf16(char)
        for char in text
    )


def _utf16(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
