"""Conversion of TOML, JSON or the string of a variable to the value of a setting.

`convert` takes a parsed value and is strict about its type; `from_text` takes a string. Both raise ValueError
(for a table: Faults), whose message never repeats a secret.
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
from distributary.config.setting_field import Setting, display
from distributary.config.units import parse_duration, parse_size, parse_start
from distributary.model.setting_info import SettingInfo

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
    """Errors in single entries of a table: (entry, message) pairs."""

    def __init__(self, entries: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{name}: {message}" for name, message in entries))
        self.entries = entries


def convert(setting: Setting, raw: Any) -> Any:
    """Convert a parsed value to the type of the setting, and check its limits and choices."""
    info = setting.info
    if info.optional and (raw is None or raw == "" or (info.kind == "duration" and raw == "never")):
        return None
    match info.kind:
        case "string":
            value: Any = _checked(info, _expect(info, raw, str, "a string"))
        case "integer":
            value = _expect(info, raw, int, "an integer")
        case "boolean":
            value = _expect(info, raw, bool, "true or false")
        case "duration":
            value = parse_duration(_expect(info, raw, (str, int, float), 'a duration such as "30 s"'))
        case "size":
            value = parse_size(_expect(info, raw, (str, int), 'a size such as "64k"'))
        case "memory":
            value = _memory(_expect(info, raw, str, 'a string such as "512m" or "2g"'))
        case "start":
            value = parse_start(_expect(info, raw, (str, date), '"earliest", "now" or a time'))
        case "list":
            items = _expect(info, raw, list, "a list of strings")
            value = tuple(_checked(info, _expect(info, item, str, "a list of strings")) for item in items)
        case "table":
            value = _table(setting, _expect(info, raw, dict, "a table"))
    _check_range(info, value)
    return value


def from_text(setting: Setting, text: str) -> Any:
    """Parse a setting from the string of an environment variable or an option.

    A list is separated by commas. A table is a JSON object, or ``name=value`` pairs separated by
    commas (commas inside brackets and quotes belong to the value).
    """
    raw: Any = text
    match setting.info.kind:
        case "integer":
            if not _INTEGER.fullmatch(text.strip()):
                raise ValueError(f"expected an integer{_got(setting.info, text)}")
            raw = int(text)
        case "boolean":
            if text.strip().lower() not in _BOOLEANS:
                raise ValueError(f"expected true or false{_got(setting.info, text)}")
            raw = _BOOLEANS[text.strip().lower()]
        case "list":
            raw = [item.strip() for item in text.split(",") if item.strip()]
        case "table":
            raw = _table_text(text)
    return convert(setting, raw)


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Undo how TOML parses dotted keys: ``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _expect(info: SettingInfo, raw: Any, types: type | tuple[type, ...], words: str) -> Any:
    allowed = types if isinstance(types, tuple) else (types,)
    if not isinstance(raw, allowed) or (isinstance(raw, bool) and bool not in allowed):
        raise ValueError(f"expected {words}{_got(info, raw)}")
    return raw


def _got(info: SettingInfo, raw: Any) -> str:
    names: dict[type, str] = {dict: "a table", list: "a list", type(None): "null"}
    if type(raw) in names:
        return f", got {names[type(raw)]}"
    if info.secret or info.hidden:
        return f", got {'a string' if isinstance(raw, str) else 'a ' + type(raw).__name__}"
    if isinstance(raw, bool):
        return f", got {str(raw).lower()}"
    return f', got the string "{mask_text(raw)}"' if isinstance(raw, str) else f", got {raw}"


def _checked(info: SettingInfo, text: str) -> str:
    if info.choices and text not in info.choices:
        message = f'expected one of {", ".join(info.choices)}, got "{mask_text(text)}"'
        raise ValueError(message + _guess(text, info.choices))
    if info.check is None:
        return text
    try:
        return info.check(text)
    except ValueError as error:
        raise ValueError(f"{error}{_got(info, text)}{_guess(text, info.words)}") from None


def _guess(text: str, words: tuple[str, ...]) -> str:
    near = nearest(text, words)
    return f' (did you mean "{near}"?)' if near else ""


def _memory(text: str) -> str:
    memory = text.strip().lower()
    if not _MEMORY.fullmatch(memory):
        raise ValueError(f'expected memory such as "512m" or "2g", got "{mask_text(text)}"')
    return memory


def _check_range(info: SettingInfo, value: Any) -> None:
    if info.low is None and info.high is None:
        return
    if (info.low is not None and value < info.low) or (info.high is not None and value > info.high):
        raise ValueError(f"expected {allowed_range(info)}, got {display(info, value)}")


def allowed_range(info: SettingInfo) -> str:
    """Describe the limits: ``1 to 65535``, ``at least "1 ms"``; "" if there are none."""

    def limit(value: float) -> str:
        if info.kind == "duration":
            return display(info, float(value)).strip('"')
        return display(info, int(value)).strip('"')

    if info.low is not None and info.high is not None:
        return f"{limit(info.low)} to {limit(info.high)}"
    if info.low is not None:
        return f"at least {limit(info.low)}"
    return f"at most {limit(info.high)}" if info.high is not None else ""


def _table(setting: Setting, table: dict[str, Any]) -> dict[str, str]:
    values: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    aggregates, entry = setting.name == "aggregates", setting.info.entry
    for name, value in (table if aggregates or entry else flatten(table)).items():
        try:
            if entry:
                values[_checked(setting.info, name)] = entry(value)
            else:
                values[name] = _aggregate(name, value) if aggregates else _property(setting.info, name, value)
        except ValueError as error:
            faults.append((name, str(error)))
    if faults:
        raise Faults(faults)
    return values


def _property(info: SettingInfo, name: str, value: Any) -> str:
    if name in info.reserved:
        raise ValueError(f"cannot be set here: {info.reserved[name]}")
    if not isinstance(value, str | int | float):
        raise ValueError(f"expected a string, a number, or true or false{_got(info, value)}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if name in info.fixed and text.strip().lower() not in info.fixed[name]:
        raise ValueError(
            f"cannot be {json.dumps(text)}: exactness requires {json.dumps(info.fixed[name][0])}; remove it"
        )
    return text


def _aggregate(name: str, text: Any) -> str:
    if not NAME.fullmatch(name):
        raise ValueError("is not a valid field name: expected letters, digits and _")
    if not isinstance(text, str):
        raise ValueError('expected a string such as "sum(stake)"')
    parse_aggregate(text)
    return text.strip()


def _table_text(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"invalid JSON object: {error.msg} at character {error.pos}") from None
        except RecursionError:
            raise ValueError("invalid JSON object: nested too deeply") from None
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
