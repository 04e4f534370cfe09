"""The description of one setting, as a dataclass field carries it.

Defaults, environment names, help texts, checks and the reference page all come from these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["string", "integer", "boolean", "duration", "size", "memory", "start", "list", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """What readers of the documentation, and the loader of the configuration, need to know of a setting."""

    doc: str
    kind: Kind
    unit: str = ""
    example: str = ""
    """TOML text."""
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Valid values besides others, to suggest for a misspelling."""
    low: float | None = None
    """The least value, in the unit of the value; ``high`` is the greatest."""
    high: float | None = None
    optional: bool = False
    """Whether it may be None, written "" (or "never" for a duration)."""
    aliases: tuple[str, ...] = ()
    check: Callable[[str], str] | None = None
    """Takes a string (each element of a list); returns its normal form, or raises ValueError."""
    entry: Callable[[Any], str] | None = None
    """Takes one entry of a table, of any type; returns it as a string, or raises ValueError."""
    reserved: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Properties that a table rejects, each with what to do instead."""
    fixed: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Properties that must have one of a few values if they are set."""
    secret: bool = False
    """Passwords inside the value are never printed."""
    hidden: bool = False
    """The value is never printed."""


def described(doc: str, kind: Kind = "string", **more: Any) -> dict[str, SettingInfo]:
    """Return the metadata of a dataclass field that is a setting."""
    return {"info": SettingInfo(doc=doc, kind=kind, **more)}
