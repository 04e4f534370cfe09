"""Reads a parsed document into drafts, section by section, and reports every error with its line.

Environment variables and options are then applied to the drafts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from distributary.config.coerce import Faults, convert, from_text
from distributary.config.problems import Problems, nearest
from distributary.config.sections import SECTIONS
from distributary.config.setting_field import PREFIX, Origin, Setting
from distributary.config.settings_table import GROUPS
from distributary.config.toml_lines import Lines, Path


@dataclass(slots=True)
class Draft:
    """One section, feed or view while it is read: the valid values so far.

    ``item`` is the name of the feed or view (or its number, if it has no valid name). ``refused`` are the
    settings with an invalid value: no further error is reported for them.
    """

    settings: dict[str, Setting]
    path: Path
    item: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def key(self, name: str = "") -> str:
        """Return the path of one of its keys for messages, or its own path."""
        section = str(self.path[0]) if self.path else ""
        return ".".join(part for part in (section, self.item, name) if part)

    def get(self, name: str) -> Any:
        """Return the given value, else the default."""
        return self.values.get(name, self.settings[name].default)

    def take(self, name: str, value: Any, origin: Origin, origins: dict[str, Origin]) -> None:
        """Set a value; a table is merged entry by entry."""
        if isinstance(value, dict):
            self.values[name] = {**self.values.get(name, {}), **value}
            origins.update({f"{self.key(name)}.{entry}": origin for entry in value})
        else:
            self.values[name] = value
        origins[self.key(name)] = origin


class DocumentReader:
    """Turns a document into drafts; ``lines`` finds the lines of keys, if the document has them."""

    def __init__(self, problems: Problems, lines: Lines | None = None) -> None:
        self.problems = problems
        self.origins: dict[str, Origin] = {}
        self._lines = lines

    def line(self, path: Path) -> int | None:
        """Return the line of ``path``."""
        return self._lines.find(path) if self._lines else None

    def report(self, draft: Draft, name: str, message: str, *, near: str = "") -> None:
        """Report an error at one key of a draft (or at the draft, if it lacks the key)."""
        self.problems.add(message, key=draft.key(name), line=self.line((*draft.path, name)), nearest=near)

    def unknown(self, document: Mapping[str, Any], known: Iterable[str]) -> None:
        """Report every unknown top-level name."""
        names = list(known)
        for name, value in document.items():
            if name not in names:
                what = "section" if isinstance(value, dict | list) else "key"
                near = nearest(name, names)
                message = f"unknown {what}" if near else f"unknown {what} (known: {', '.join(names)})"
                self.problems.add(message, key=name, line=self.line((name,)), nearest=near)

    def sections(self, document: Mapping[str, Any]) -> dict[str, Draft]:
        """Read the top of the file (as "") and all sections, whether they are in the document or not."""
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
        """Read all feeds or all views; a repeated name is an error at its second occurrence."""
        raw = document.get(group, [])
        if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
            self.problems.add(f"expected tables: write [[{group}]]", key=group, line=self.line((group,)))
            return []
        drafts: list[Draft] = []
        first_of: dict[str, Draft] = {}
        for number, item in enumerate(raw):
            given = item.get("name")
            item_name = given if isinstance(given, str) and given else str(number + 1)
            draft = self._table(GROUPS[group], item, (group, number), item_name)
            self._required(draft)
            drafts.append(draft)
            if "name" in draft.values and item_name in first_of:
                first = self.line((*first_of[item_name].path, "name"))
                self.report(
                    draft, "name", "duplicate name" + (f", first used in line {first}" if first else "")
                )
            first_of.setdefault(item_name, draft)
        return drafts

    def _required(self, draft: Draft) -> None:
        for name, setting in draft.settings.items():
            if setting.required and name not in draft.values and name not in draft.refused:
                example = setting.info.example
                self.report(draft, name, f"missing; for example {name} = {example}")
                draft.refused.add(name)

    def _table(self, settings: tuple[Setting, ...], raw: dict[str, Any], path: Path, item: str = "") -> Draft:
        draft = Draft({setting.name: setting for setting in settings}, path, item)
        for name, value, written in _entries(draft.settings, raw):
            setting = draft.settings.get(name)
            if setting is None:
                near = nearest(name, draft.settings)
                message = "unknown key" if near else f"unknown key (known: {', '.join(draft.settings)})"
                self._at(draft, written, message, near)
            elif name in draft.values or name in draft.refused:
                self._at(draft, written, "set twice, in two spellings")
            else:
                self._value(draft, setting, value, (*path, *written))
        return draft

    def _at(self, draft: Draft, written: tuple[str, ...], message: str, near: str = "") -> None:
        line = self.line((*draft.path, *written))
        self.problems.add(message, key=draft.key(".".join(written)), line=line, nearest=near)

    def _value(self, draft: Draft, setting: Setting, raw: Any, path: Path) -> None:
        line = self.line(path)
        source = f"{self.problems.file}:{line}" if line else self.problems.file
        try:
            value = convert(setting, raw)
        except Faults as faults:
            draft.refused.add(setting.name)
            for entry, message in faults.entries:
                # The dots of a property may be TOML's own: a.b is written as "a.b" or as a nested table.
                found = max(self.line((*path, entry)) or 0, self.line((*path, *entry.split("."))) or 0)
                self.problems.add(message, key=f"{draft.key(setting.name)}.{entry}", line=found or line)
        except ValueError as error:
            draft.refused.add(setting.name)
            self.problems.add(str(error), key=draft.key(setting.name), line=line)
        else:
            draft.take(setting.name, value, Origin("file", source), self.origins)
            if isinstance(value, dict):
                self._locate_entries(draft.key(setting.name), path, value)

    def _locate_entries(self, key: str, path: Path, table: dict[str, str]) -> None:
        for entry in table:
            found = max(self.line((*path, entry)) or 0, self.line((*path, *entry.split("."))) or 0)
            if found:
                self.origins[f"{key}.{entry}"] = Origin("file", f"{self.problems.file}:{found}")


def _entries(
    settings: Mapping[str, Setting], raw: dict[str, Any]
) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield (name of the setting, value, keys as written); aliases become the name of the setting."""
    spellings = {alias: s.name for s in settings.values() for alias in s.info.aliases}
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


Targets = dict[str, list[tuple[Draft, Setting]]]

NOT_SETTINGS = (
    "DISTRIBUTARY_CONFIG",
    "DISTRIBUTARY_CACHE",
    "DISTRIBUTARY_IVY_SETTINGS",
    "DISTRIBUTARY_STACK",
    "DISTRIBUTARY_COMPONENT",
    "DISTRIBUTARY_*HEARTBEAT_FILE",
    "DISTRIBUTARY_CONTROL_URL",
    "DISTRIBUTARY_TOKEN",
    "DISTRIBUTARY_API_KEY",
    "DISTRIBUTARY_TLS_*",
    "DISTRIBUTARY_STORE_SERVER",
    "DISTRIBUTARY_OSV_URL",
    "DISTRIBUTARY_TEST_*",
    "DISTRIBUTARY_FAULT_*",
)
"""Variables with the prefix that are not settings (patterns)."""


def read_environment(reader: DocumentReader, drafts: Iterable[Draft], env: Mapping[str, str]) -> None:
    """Apply ``DISTRIBUTARY_…`` variables; one that matches no setting is an error."""
    targets: Targets = {}
    for draft, setting in _settable(drafts):
        targets.setdefault(setting.env_of(draft.item), []).append((draft, setting))
    prefixed = sorted(name for name in env if name.startswith(PREFIX))
    given = {name: env[name] for name in prefixed if not any(fnmatchcase(name, p) for p in NOT_SETTINGS)}
    _apply(reader, targets, given, "environment")


def read_options(reader: DocumentReader, drafts: Iterable[Draft], given: Mapping[str, str]) -> None:
    """Apply ``overrides`` by key: ``kafka.port``, ``views.odds.ttl``."""
    targets: Targets = {
        setting.key_of(draft.item): [(draft, setting)] for draft, setting in _settable(drafts)
    }
    _apply(reader, targets, given, "option")


def _settable(drafts: Iterable[Draft]) -> Iterable[tuple[Draft, Setting]]:
    """Yield all settings but the names of feeds and views, which identify them."""
    for draft in drafts:
        for setting in draft.settings.values():
            if not (draft.item and setting.name == "name"):
                yield draft, setting


def _apply(reader: DocumentReader, targets: Targets, given: Mapping[str, str], kind: str) -> None:
    def refuse(message: str, key: str, near: str = "") -> None:
        reader.problems.add(message, key=key, nearest=near, file=kind)

    for name, text in given.items():
        found = targets.get(name, [])
        if not found:
            refuse("matches no setting", name, nearest(name, targets))
        elif len(found) > 1:
            keys = " and ".join(draft.key(setting.name) for draft, setting in found)
            refuse(f"ambiguous: may refer to {keys}; set them in the file", name)
        else:
            draft, setting = found[0]
            try:
                value = from_text(setting, text)
            except Faults as faults:
                for entry, message in faults.entries:
                    refuse(message, f"{name}: {entry}")
                draft.refused.add(setting.name)
            except ValueError as error:
                refuse(str(error), name)
                draft.refused.add(setting.name)
            else:
                draft.take(setting.name, value, Origin(kind, name), reader.origins)
