"""Settings as rows of a table: names, defaults, environment variables, and how values are printed."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import MISSING, dataclass
from typing import Any, cast

from distributary.config.secrets import MASK, mask_property, mask_text
from distributary.config.units import format_duration, format_size
from distributary.model.setting_info import Kind, SettingInfo, described

PREFIX = "DISTRIBUTARY_"

ITEMS = ("topics", "feeds", "views")
"""Sections that may occur several times, each with a name."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table: a field of a section (``section`` "" is the top of the file)."""

    section: str
    name: str
    default: Any
    required: bool
    info: SettingInfo

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


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from.

    ``kind`` is default, file, environment or option; ``source`` is the line, the variable or the option.
    """

    kind: str
    source: str = ""

    def __str__(self) -> str:
        return self.source or self.kind


DEFAULT = Origin("default")


def setting(default: Any, doc: str, *, kind: Kind | None = None, **more: Any) -> Any:
    """Declare a dataclass field that is a setting; the kind follows from the default unless given."""
    metadata = described(doc, kind or _kind(default), **more)
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def describe(section: str, cls: type) -> tuple[Setting, ...]:
    """List the fields of a dataclass as settings."""
    rows = []
    for field in dataclasses.fields(cls):
        if field.default_factory is not MISSING:
            default, required = field.default_factory(), False
        else:
            required = field.default is MISSING
            default = None if required else field.default
        rows.append(Setting(section, field.name, default, required, field.metadata["info"]))
    return tuple(rows)


def display(info: SettingInfo, value: Any) -> str:
    """Format a value as TOML, secrets masked; None as "not set"."""
    if value is None:
        return "not set"
    if info.kind == "duration":
        return quote(format_duration(value))
    if info.kind == "size":
        text = format_size(value)
        return text if text.isdigit() else quote(text)
    if info.kind == "table":
        inner = ", ".join(f"{quote(k)} = {quote(v)}" for k, v in masked(info, value).items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(masked(info, value), ensure_ascii=False)


def masked(info: SettingInfo, value: Any) -> Any:
    """Return the value with its secrets masked, ready for JSON."""
    if info.kind == "table":
        return {name: _entry(info, name, text) for name, text in (value or {}).items()}
    if isinstance(value, tuple):
        return [MASK if info.hidden else mask_text(item) if info.secret else item for item in value]
    if isinstance(value, str) and info.hidden:
        return value and MASK
    if isinstance(value, str) and info.secret:
        return mask_text(value)
    return value


def _entry(info: SettingInfo, name: str, text: str) -> str:
    if info.hidden:
        return text and MASK
    return mask_property(name, text) if info.secret else text


def quote(text: str) -> str:
    """Format a string as a TOML basic string."""
    return json.dumps(text, ensure_ascii=False)


class Section:
    """The base class of sections: its repr masks secrets."""

    __slots__ = ()

    def __repr__(self) -> str:
        fields = dataclasses.fields(cast(Any, self))
        inner = (f"{f.name}={masked(f.metadata['info'], getattr(self, f.name))!r}" for f in fields)
        return f"{type(self).__name__}({', '.join(inner)})"


def _kind(default: Any) -> Kind:
    kinds: dict[type, Kind] = {
        bool: "boolean",
        int: "integer",
        float: "duration",
        str: "string",
        tuple: "list",
        dict: "table",
    }
    return kinds[type(default)]
