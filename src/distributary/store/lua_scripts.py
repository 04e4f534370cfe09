"""The store's Lua scripts: their text, and what the errors and identifiers of a server mean."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from redis.exceptions import ConnectionError, MasterDownError, ReadOnlyError, ResponseError

from distributary.store.errors import BuildGone, Fenced, NotOwner, Suspect, TopicReplaced


@cache
def script(name: str) -> str:
    """Return the text of a script, with its includes."""
    text = resources.files("distributary.store").joinpath("lua", f"{name}.lua").read_text()
    return re.sub(r"^#include (\w+)\.lua$", lambda m: script(m.group(1)), text, flags=re.MULTILINE)


@cache
def script_sha(name: str) -> str:
    """Return the digest by which a server knows a script."""
    return hashlib.sha1(script(name).encode(), usedforsecurity=False).hexdigest()


def history_id(info: Mapping[str, Any]) -> str:
    """Identify the history of writes that a server is on, from the sections server and replication of INFO.

    Equal to that of history.lua: the run id alone does not change when a primary is demoted, resynchronized
    and promoted again.
    """
    return f"{info['run_id']}:{info.get('master_replid', '')}"


class WritesRefused(ConnectionError):
    """The server takes no writes at the moment: its disk is full, or it has too few replicas."""


REFUSALS = ("MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN")


def from_replica(error: Exception) -> bool:
    """Return whether a replica replied: the primary is another server by now."""
    return isinstance(error, (ReadOnlyError, MasterDownError)) or "READONLY" in str(error)


def store_error(error: ResponseError) -> Exception:
    """Turn an error reply of a script, or of a server that takes no writes, into the exception it names."""
    message = str(error)
    word = message.removeprefix("-").split(" ", 1)[0]
    if word in REFUSALS or any(f"-{word}" in message for word in REFUSALS):
        return WritesRefused(message)
    kinds: dict[str, Callable[[str], Exception]] = {
        "FENCED": Fenced,
        "GONE": BuildGone,
        "OWNER": _not_owner,
        "SUSPECT": Suspect,
        "TOPIC": TopicReplaced,
    }
    return kinds[word](message) if word in kinds else error


def _not_owner(message: str) -> NotOwner:
    """Parse the error reply ``OWNER partition key``."""
    _, owner, key = message.split(" ", 2)
    return NotOwner(key, int(owner))
