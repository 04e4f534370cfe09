"""Reads a parsed document into drafts, section by section, noting every mistake with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from distributary.config.coerce import Faults, convert
from distributary.config.problems import Problems, nearest
from distributary.config.setting_field import Setting
from distributary.config.settings_table import GROUPS, SECTIONS
from distributary.config.toml_lines import Lines, Path


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from.

    ``kind`` is default, file, environment or option; ``place`` is the line, or the variable or option.
    """

    kind: str
    place: str = ""

    def __str__(self) -> str:
        return self.place or self.kind


DEFAULT = Origin("default")


@dataclass(slots=True)
class Draft:
    """One section, feed or view while it is read: the values that were given and are good.

    ``item`` is the feed's or view's name (or its place, while it has no good name). ``refused``
    holds the settings whose given value was not good, so that no second mistake is made of them.
    """

    settings: dict[str, Setting]
    path: Path
    item: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def key(self, name: str = "") -> str:
        """The path of one of its keys in messages, or its own."""
        section = str(self.path[0]) if self.path else ""
        return ".".join(part for part in (section, self.item, name) if part)

    def get(self, name: str) -> Any:
        """The value given, else the default."""
        return self.values.get(name, self.settings[name].default)

    def take(self, name: str, value: Any, origin: Origin, origins: dict[str, Origin]) -> None:
        """Set a value over what is there; a table is added to entry by entry."""
        if isinstance(value, dict):
            self.values[name] = {**self.values.get(name, {}), **value}
            origins.update({f"{self.key(name)}.{entry}": origin for entry in value})
        else:
            self.values[name] = value
        origins[self.key(name)] = origin


class Reader:
    """Turns a document into drafts; ``lines`` finds the lines of keys, where the text has any."""

    def __init__(self, problems: Problems, lines: Lines | None = None) -> None:
        self.problems = problems
        self.origins: dict[str, Origin] = {}
        self._lines = lines

    def line(self, path: Path) -> int | None:
        """The line where ``path`` is written."""
        return self._lines.find(path) if self._lines else None

    def note(self, draft: Draft, name: str, message: str, *, near: str = "") -> None:
        """Note a mistake at one key of a draft (or at the draft, where the key is not written)."""
        self.problems.add(message, key=draft.key(name), line=self.line((*draft.path, name)), nearest=near)

    def unknown(self, document: Mapping[str, Any], known: Iterable[str]) -> None:
        """Note every top-level name that is not known."""
        names = list(known)
        for name, value in document.items():
            if name not in names:
                what = "section" if isinstance(value, dict | list) else "key"
                near = nearest(name, names)
                said = f"unknown {what}" if near else f"unknown {what} (there are {', '.join(names)})"
                self.problems.add(said, key=name, line=self.line((name,)), nearest=near)

    def sections(self, document: Mapping[str, Any]) -> dict[str, Draft]:
        """Read the top of the file (under "") and the sections; all are there, given or not."""
        top = {name: document[name] for name in ("data_dir",) if name in document}
        drafts = {"": self._table(GROUPS[""], top, ())}
        for name in SECTIONS:
            raw = document.get(name, {})
            if not isinstance(raw, dict):
                self.problems.add(f"expected a section: [{name}]", key=name, line=self.line((name,)))
                raw = {}
            drafts[name] = self._table(GROUPS[name], raw, (name,))
        return drafts

    def items(self, document: Mapping[str, Any], group: str) -> list[Draft]:
        """Read all feeds or all views; a repeated name is a mistake at its second place."""
        raw = document.get(group, [])
        if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
            self.problems.add(f"expected tables: write [[{group}]]", key=group, line=self.line((group,)))
            return []
        drafts: list[Draft] = []
        seen: dict[str, Draft] = {}
        for place, item in enumerate(raw):
            given = item.get("name")
            named = given if isinstance(given, str) and given else str(place + 1)
            draft = self._table(GROUPS[group], item, (group, place), named)
            self._required(draft)
            drafts.append(draft)
            if "name" in draft.values and named in seen:
                first = self.line((*seen[named].path, "name"))
                self.note(draft, "name", "the name is taken" + (f" by line {first}" if first else ""))
            seen.setdefault(named, draft)
        return drafts

    def _required(self, draft: Draft) -> None:
        for name, setting in draft.settings.items():
            if setting.required and name not in draft.values and name not in draft.refused:
                example = setting.note.example
                self.note(draft, name, f"missing; write for example {name} = {example}")
                draft.refused.add(name)

    def _table(self, settings: tuple[Setting, ...], raw: dict[str, Any], path: Path, item: str = "") -> Draft:
        draft = Draft({setting.name: setting for setting in settings}, path, item)
        for name, value, written in _entries(draft.settings, raw):
            setting = draft.settings.get(name)
            if setting is None:
                near = nearest(name, draft.settings)
                said = "unknown key" if near else f"unknown key (there are {', '.join(draft.settings)})"
                self._at(draft, written, said, near)
            elif name in draft.values or name in draft.refused:
                self._at(draft, written, "given twice, in two spellings")
            else:
                self._value(draft, setting, value, (*path, *written))
        return draft

    def _at(self, draft: Draft, written: tuple[str, ...], message: str, near: str = "") -> None:
        line = self.line((*draft.path, *written))
        self.problems.add(message, key=draft.key(".".join(written)), line=line, nearest=near)

    def _value(self, draft: Draft, setting: Setting, raw: Any, path: Path) -> None:
        line = self.line(path)
        place = f"{self.problems.file}:{line}" if line else self.problems.file
        try:
            value = convert(setting, raw)
        except Faults as faults:
            draft.refused.add(setting.name)
            for entry, message in faults.entries:
                # A property's dots may be TOML's own: a.b is written as "a.b" or as a table in a table.
                found = max(self.line((*path, entry)) or 0, self.line((*path, *entry.split("."))) or 0)
                self.problems.add(message, key=f"{draft.key(setting.name)}.{entry}", line=found or line)
        except ValueError as error:
            draft.refused.add(setting.name)
            self.problems.add(str(error), key=draft.key(setting.name), line=line)
        else:
            draft.take(setting.name, value, Origin("file", place), self.origins)
            if isinstance(value, dict):
                self._places(draft.key(setting.name), path, value)

    def _places(self, key: str, path: Path, table: dict[str, str]) -> None:
        for entry in table:
            found = max(self.line((*path, entry)) or 0, self.line((*path, *entry.split("."))) or 0)
            if found:
                self.origins[f"{key}.{entry}"] = Origin("file", f"{self.problems.file}:{found}")


def _entries(
    settings: Mapping[str, Setting], raw: dict[str, Any]
) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield (setting's name, value, keys as written), other spellings brought to the setting's name."""
    spellings = {alias: s.name for s in settings.values() for alias in s.note.aliases}
    heads = {alias.split(".")[0] for alias in spellings} - set(settings)
    for name, value in raw.items():
        if name in spellings:
            yield spellings[name], value, (name,)
        elif name in heads and isinstance(value, dict):
            for tail, inner in value.items():
                alias = f"{name}.{tail}"
                yield spellings.get(alias, alias), inner, (name, tail)
        else:
            yield name, value, (name,)
