"""From what is written (TOML, JSON, or the text of a variable) to a setting's value.

`convert` takes a parsed value and is strict about its type; `from_text` takes a text, where
everything is spelled. Both raise ValueError (a table: Faults), whose message never repeats a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from distributary.config.aggregates import NAME, parse_aggregate
from distributary.config.problems import nearest
from distributary.config.secrets import mask_text
from distributary.config.setting_field import Note, Setting, display
from distributary.config.units import parse_duration, parse_size, parse_start

_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class Faults(ValueError):
    """What is wrong with single entries of a table: (entry, message) pairs."""

    def __init__(self, entries: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{name}: {message}" for name, message in entries))
        self.entries = entries


def convert(setting: Setting, raw: Any) -> Any:
    """Bring a parsed value into the form of the setting's field, within its bounds and choices."""
    note = setting.note
    if note.optional and (raw is None or raw == "" or (note.kind == "duration" and raw == "never")):
        return None
    match note.kind:
        case "text":
            value: Any = _checked(note, _need(note, raw, str, "a text"))
        case "integer":
            value = _need(note, raw, int, "an integer")
        case "boolean":
            value = _need(note, raw, bool, "true or false")
        case "duration":
            value = parse_duration(_need(note, raw, (str, int, float), 'a duration such as "30 s"'))
        case "size":
            value = parse_size(_need(note, raw, (str, int), 'a size such as "64k"'))
        case "memory":
            value = _memory(_need(note, raw, str, 'a text such as "512m" or "2g"'))
        case "start":
            value = parse_start(_need(note, raw, (str, date), '"earliest", "now" or a time'))
        case "list":
            items = _need(note, raw, list, "a list of texts")
            value = tuple(_checked(note, _need(note, item, str, "a list of texts")) for item in items)
        case "table":
            value = _table(setting, _need(note, raw, dict, "a table"))
    _bounds(note, value)
    return value


def from_text(setting: Setting, text: str) -> Any:
    """Read a setting from the text of an environment variable or an option.

    A list is separated by commas. A table is a JSON object, or ``name=value`` pairs separated by
    commas (commas inside brackets and quotes belong to the value).
    """
    raw: Any = text
    match setting.note.kind:
        case "integer":
            if not _INTEGER.fullmatch(text.strip()):
                raise ValueError(f"expected an integer{_got(setting.note, text)}")
            raw = int(text)
        case "boolean":
            if text.strip().lower() not in _BOOLEANS:
                raise ValueError(f"expected true or false{_got(setting.note, text)}")
            raw = _BOOLEANS[text.strip().lower()]
        case "list":
            raw = [item.strip() for item in text.split(",") if item.strip()]
        case "table":
            raw = _table_text(text)
    return convert(setting, raw)


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Undo what TOML makes of dotted keys: ``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _need(note: Note, raw: Any, types: type | tuple[type, ...], words: str) -> Any:
    wanted = types if isinstance(types, tuple) else (types,)
    if not isinstance(raw, wanted) or (isinstance(raw, bool) and bool not in wanted):
        raise ValueError(f"expected {words}{_got(note, raw)}")
    return raw


def _got(note: Note, raw: Any) -> str:
    names: dict[type, str] = {dict: "a table", list: "a list", type(None): "null"}
    if type(raw) in names:
        return f", got {names[type(raw)]}"
    if note.secret or note.hidden:
        return f", got {'a text' if isinstance(raw, str) else 'a ' + type(raw).__name__}"
    if isinstance(raw, bool):
        return f", got {str(raw).lower()}"
    return f', got the text "{mask_text(raw)}"' if isinstance(raw, str) else f", got {raw}"


def _checked(note: Note, text: str) -> str:
    if note.choices and text not in note.choices:
        said = f'expected one of {", ".join(note.choices)}, got "{mask_text(text)}"'
        raise ValueError(said + _guess(text, note.choices))
    if note.check is None:
        return text
    try:
        return note.check(text)
    except ValueError as error:
        raise ValueError(f"{error}{_got(note, text)}{_guess(text, note.words)}") from None


def _guess(text: str, words: tuple[str, ...]) -> str:
    near = nearest(text, words)
    return f' (did you mean "{near}"?)' if near else ""


def _memory(text: str) -> str:
    memory = text.strip().lower()
    if not _MEMORY.fullmatch(memory):
        raise ValueError(f'expected memory such as "512m" or "2g", got "{mask_text(text)}"')
    return memory


def _bounds(note: Note, value: Any) -> None:
    if note.low is None and note.high is None:
        return
    if (note.low is not None and value < note.low) or (note.high is not None and value > note.high):
        raise ValueError(f"expected {bounds(note)}, got {display(note, value)}")


def bounds(note: Note) -> str:
    """Say the bounds in words: ``1 to 65535``, ``at least "1 ms"``; "" where there are none."""

    def limit(value: float) -> str:
        if note.kind == "duration":
            return display(note, float(value)).strip('"')
        return display(note, int(value)).strip('"')

    if note.low is not None and note.high is not None:
        return f"{limit(note.low)} to {limit(note.high)}"
    if note.low is not None:
        return f"at least {limit(note.low)}"
    return f"at most {limit(note.high)}" if note.high is not None else ""


def _table(setting: Setting, table: dict[str, Any]) -> dict[str, str]:
    values: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    aggregates, entry = setting.name == "aggregates", setting.note.entry
    for name, value in (table if aggregates or entry else flatten(table)).items():
        try:
            if entry:
                values[_checked(setting.note, name)] = entry(value)
            else:
                values[name] = _aggregate(name, value) if aggregates else _property(setting.note, name, value)
        except ValueError as error:
            faults.append((name, str(error)))
    if faults:
        raise Faults(faults)
    return values


def _property(note: Note, name: str, value: Any) -> str:
    if name in note.reserved:
        raise ValueError(f"cannot be set here: {note.reserved[name]}")
    if not isinstance(value, str | int | float):
        raise ValueError(f"expected a text, a number, or true or false{_got(note, value)}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if name in note.fixed and text.strip().lower() not in note.fixed[name]:
        raise ValueError(
            f"cannot be {json.dumps(text)}: exactness needs {json.dumps(note.fixed[name][0])}; leave it out"
        )
    return text


def _aggregate(name: str, text: Any) -> str:
    if not NAME.fullmatch(name):
        raise ValueError("cannot be the name of a field: expected letters, digits and _")
    if not isinstance(text, str):
        raise ValueError('expected a text such as "sum(stake)"')
    parse_aggregate(text)
    return text.strip()


def _table_text(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"not a JSON object: {error.msg} at character {error.pos}") from None
        except RecursionError:
            raise ValueError("not a usable JSON object: nested too deeply") from None
    table: dict[str, str] = {}
    for pair in _split(text):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError("expected a JSON object, or name=value pairs separated by commas")
        table[name.strip()] = value.strip()
    return table


def _split(text: str) -> list[str]:
    parts, part, depth, quote = [], "", 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"`":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(part)
            part = ""
            continue
        part += char
    parts.append(part)
    return [part for part in parts if part.strip()]
