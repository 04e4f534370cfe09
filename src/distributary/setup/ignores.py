"""``audit-ignore.toml``: advisories that are known and accepted, each for a reason and for a time.

[[ignore]]
id = "GHSA-xxxx-yyyy-zzzz"
reason = "only reached with a feature that we do not use"
until = 2027-01-31
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from distributary.errors import ConfigError

FILE = "audit-ignore.toml"
_KEYS = ("id", "reason", "until")


@dataclass(frozen=True, slots=True)
class Ignore:
    """One entry; it counts up to and with the day ``until``."""

    id: str
    reason: str
    until: date

    def expired(self, today: date) -> bool:
        """Say whether it counts no more."""
        return today > self.until


def read(file: Path) -> list[Ignore]:
    """Read the list; raises ConfigError for what is missing in it. Where there is no file, it is empty."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from None
    entries = data.get("ignore", [])
    if set(data) - {"ignore"} or not isinstance(entries, list):
        raise ConfigError(f"{file}: expected [[ignore]] tables and nothing else")
    found = [_entry(entry, f"{file}: entry {place}") for place, entry in enumerate(entries, 1)]
    ids = [one.id for one in found]
    if twice := sorted({id for id in ids if ids.count(id) > 1}):
        raise ConfigError(f"{file}: given twice: {', '.join(twice)}")
    return found


def _entry(entry: Any, where: str) -> Ignore:
    if not isinstance(entry, dict) or set(entry) - set(_KEYS):
        raise ConfigError(f"{where}: expected a table with {', '.join(_KEYS)} and nothing else")
    for key in ("id", "reason"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise ConfigError(f"{where}: {key} is missing", hint="Every entry says which advisory, and why")
    until = entry.get("until")
    if not isinstance(until, date) or isinstance(until, datetime):
        raise ConfigError(f"{where}: until is missing, or no date", hint="Write it as until = 2027-01-31")
    return Ignore(entry["id"].strip(), entry["reason"].strip(), until)
