"""How one setting is described. Every default, environment name, help text and page comes from these."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Literal, cast

from distributary.config.secrets import MASK, mask_property, mask_text
from distributary.config.units import format_duration, format_size

Kind = Literal["text", "integer", "boolean", "duration", "size", "memory", "start", "list", "table"]

PREFIX = "DISTRIBUTARY_"

ITEMS = ("topics", "feeds", "views")
"""Sections of which there may be several, each with a name."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a person, and the reader of files, must know of one setting.

    ``example`` is TOML text. ``low`` and ``high`` are inclusive, in the unit of the value. ``check``
    takes a text (each element of a list) and returns its normal form or raises ValueError.
    ``optional`` settings may be None, written "" (or "never" for a duration). ``words`` are those
    among its texts that a slip may be meant for. ``reserved`` names the properties that a table refuses,
    each with what to do instead; ``fixed`` those that must have one of a few values if they are given at
    all. Of a ``secret`` the passwords within it are never printed,
    of a ``hidden`` one nothing is. ``entry`` takes one entry of a table, whatever its type, and returns
    its text or raises ValueError.
    """

    doc: str
    kind: Kind
    unit: str = ""
    example: str = ""
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    secret: bool = False
    optional: bool = False
    aliases: tuple[str, ...] = ()
    check: Callable[[str], str] | None = None
    reserved: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    hidden: bool = False
    entry: Callable[[Any], str] | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table: a field of a section (``section`` "" is the top of the file)."""

    section: str
    name: str
    default: Any
    required: bool
    note: Note

    @property
    def key(self) -> str:
        """The name in messages and pages: ``kafka.port``, ``views.<name>.ttl``."""
        return self.key_of("<name>")

    @property
    def env(self) -> str:
        """The environment variable: ``DISTRIBUTARY_KAFKA_PORT``, ``DISTRIBUTARY_VIEWS_<NAME>_TTL``."""
        return self.env_of("<NAME>")

    def key_of(self, item: str) -> str:
        """Like `key`, for the topic, feed or view called ``item``."""
        if self.section in ITEMS:
            return f"{self.section}.{item}.{self.name}"
        return f"{self.section}.{self.name}" if self.section else self.name

    def env_of(self, item: str) -> str:
        """Like `env`, for the topic, feed or view called ``item``."""
        return PREFIX + self.key_of(item).replace(".", "_").replace("-", "_").upper()


def setting(default: Any, doc: str, *, kind: Kind | None = None, **more: Any) -> Any:
    """Declare a dataclass field that is a setting; the kind follows from the default unless given."""
    note = Note(doc=doc, kind=kind or _kind(default), **more)
    metadata = {"note": note}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def describe(section: str, cls: type, notes: Mapping[str, Note] | None = None) -> tuple[Setting, ...]:
    """List a dataclass's fields as settings; their notes are in ``notes``, else in the fields' metadata."""
    rows = []
    for field in dataclasses.fields(cls):
        note = field.metadata["note"] if notes is None else notes[field.name]
        if field.default_factory is not MISSING:
            default, required = field.default_factory(), False
        else:
            required = field.default is MISSING
            default = None if required else field.default
        rows.append(Setting(section, field.name, default, required, note))
    return tuple(rows)


def display(note: Note, value: Any) -> str:
    """Write a value as TOML would have it, secrets hidden; what is None is said in words."""
    if value is None:
        return "not set"
    if note.kind == "duration":
        return quote(format_duration(value))
    if note.kind == "size":
        text = format_size(value)
        return text if text.isdigit() else quote(text)
    if note.kind == "table":
        inner = ", ".join(f"{quote(k)} = {quote(v)}" for k, v in masked(note, value).items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(masked(note, value), ensure_ascii=False)


def masked(note: Note, value: Any) -> Any:
    """Give the value with whatever is secret in it hidden, ready for JSON."""
    if note.kind == "table":
        return {name: _entry(note, name, text) for name, text in (value or {}).items()}
    if isinstance(value, tuple):
        return [MASK if note.hidden else mask_text(item) if note.secret else item for item in value]
    if isinstance(value, str) and note.hidden:
        return value and MASK
    if isinstance(value, str) and note.secret:
        return mask_text(value)
    return value


def _entry(note: Note, name: str, text: str) -> str:
    if note.hidden:
        return text and MASK
    return mask_property(name, text) if note.secret else text


def quote(text: str) -> str:
    """Write a text as a TOML basic string."""
    return json.dumps(text, ensure_ascii=False)


class Section:
    """The base of the sections: prints itself with its secrets hidden."""

    __slots__ = ()

    def __repr__(self) -> str:
        fields = dataclasses.fields(cast(Any, self))
        inner = (f"{f.name}={masked(f.metadata['note'], getattr(self, f.name))!r}" for f in fields)
        return f"{type(self).__name__}({', '.join(inner)})"


def _kind(default: Any) -> Kind:
    kinds: dict[type, Kind] = {
        bool: "boolean",
        int: "integer",
        float: "duration",
        str: "text",
        tuple: "list",
        dict: "table",
    }
    return kinds[type(default)]
