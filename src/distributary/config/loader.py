"""Finds and reads the configuration file, applies environment and options, checks the result."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeVar

from distributary.config import cross_checks
from distributary.config.document_reader import DocumentReader, Draft, read_environment, read_options
from distributary.config.private_files import readable_by_others
from distributary.config.problems import Problems, nearest
from distributary.config.sections import SECTIONS, SERVERS, Sections
from distributary.config.setting_field import ITEMS, Origin
from distributary.config.settings_table import Effective, effective
from distributary.config.toml_lines import Lines
from distributary.errors import ConfigError, ConfigMissing, Problem
from distributary.model.feed import Feed, Topic
from distributary.model.view import View

FILE = "distributary.toml"

EXAMPLE = """\
[[feeds]]
name = "odds"
topic = "sportsbook.odds"
format = "json"

[[views]]
name = "odds"
feed = "odds"
key = "market_id"
where = "price > 1.0"
reduce = "merge"
"""
"""A minimal configuration file."""

_AT_LINE = re.compile(r" \(at line ([0-9]+), column [0-9]+\)$")
_Item = TypeVar("_Item", Feed, View)
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Config(Sections):
    """The checked configuration. ``path`` is absolute, or None if there is no file.

    So is ``data_dir``. ``origins`` says where each value came from that is not a default.
    Printing it shows no secret.
    """

    topics: tuple[Topic, ...] = ()
    feeds: tuple[Feed, ...] = ()
    views: tuple[View, ...] = ()
    data_dir: Path = Path(".distributary")
    path: Path | None = None
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False, repr=False)

    def feed(self, name: str) -> Feed:
        """Return a feed by name, or raise ConfigError with the closest name."""
        return _by_name("feed", name, self.feeds)

    def view(self, name: str) -> View:
        """Return a view by name, or raise ConfigError with the closest name."""
        return _by_name("view", name, self.views)

    def effective(self) -> tuple[Effective, ...]:
        """Return every setting in force with its origin, secrets masked."""
        holders: dict[str, object] = {"": self, **{name: getattr(self, name) for name in SECTIONS}}
        items = {name: getattr(self, name) for name in ITEMS}
        return tuple(effective(holders, items, self.origins))

    def unlisted_functions(self, view: View) -> list[str]:
        """List the Python functions of a view that this configuration does not allow.

        Allowed are those of the views in the file, and those that ``auth.functions`` lists. A definition may
        also come by REST, or from anyone who can write to the store, and its functions run in the reducers,
        with access to everything that reducers can read.
        """
        known = {name for one in self.views for name in one.functions}
        return [
            name
            for name in view.functions
            if name not in known and not any(fnmatchcase(name, pattern) for pattern in self.auth.functions)
        ]

    def exposed_secrets(self) -> tuple[str, ...]:
        """List, by key, the settings that are secrets in a file that other users can read."""
        if self.path is None or not readable_by_others(self.path):
            return ()
        return tuple(row.key for row in self.effective() if row.secret and row.origin.kind == "file")

    def exposed_warning(self) -> str:
        """Return a warning about exposed secrets; "" if there are none."""
        keys = self.exposed_secrets()
        if not keys:
            return ""
        return (
            f"{self.path} contains secrets ({', '.join(keys)}) that other users can read: "
            f"chmod 600 {self.path}, or set them by environment variables"
        )

    @property
    def folder(self) -> Path:
        """The folder that relative file names refer to."""
        return self.path.parent if self.path is not None else Path()


class Fragment(NamedTuple):
    """Feeds and views of a separate file."""

    feeds: tuple[Feed, ...]
    views: tuple[View, ...]


def load(
    path: Path | None = None,
    env: Mapping[str, str] = os.environ,
    overrides: Mapping[str, str] = _NOTHING,
    *,
    required: bool = True,
) -> Config:
    """Load the configuration: file, then environment, then ``overrides`` (strings by key); the last one wins.

    The file is ``path``, else the one that DISTRIBUTARY_CONFIG names, else ``distributary.toml`` in the
    working folder. With ``required=False`` the last one may be missing. All errors are raised together in one
    ConfigError.
    """
    given = path or (Path(env["DISTRIBUTARY_CONFIG"]) if env.get("DISTRIBUTARY_CONFIG") else None)
    file = given or Path(FILE)
    text = _read(file, may_be_missing=given is None and not required)
    problems = Problems(str(file))
    document = _toml(text or "", str(file))
    reader = DocumentReader(problems, Lines(text or ""))
    reader.unknown(document, ("data_dir", *SECTIONS, *ITEMS))
    sections = reader.sections(document)
    topics, feeds, views = (reader.items(document, name) for name in ITEMS)
    drafts = [*sections.values(), *topics, *feeds, *views]
    read_environment(reader, drafts, env)
    read_options(reader, drafts, overrides)
    for feed in feeds:
        cross_checks.check_feed(reader, feed)
    for view in views:
        cross_checks.check_view(reader, view, [feed.item for feed in feeds])
    cross_checks.check_store(reader, sections["store"])
    for name in SERVERS:
        cross_checks.check_tls(reader, sections[name])
    cross_checks.check_kafka_tls(reader, sections["kafka"])
    cross_checks.check_ports(reader, sections)
    problems.finish()
    folder = file.parent if text is not None else Path()
    for name in (*SERVERS, "kafka"):
        _make_absolute(sections[name], folder)
    sections_read: Any = {name: cls(**sections[name].values) for name, cls in SECTIONS.items()}
    return Config(
        **sections_read,
        topics=tuple(Topic(**topic.values) for topic in topics),
        feeds=tuple(Feed(**feed.values) for feed in feeds),
        views=tuple(View(**view.values) for view in views),
        data_dir=Path(os.path.abspath(folder / Path(sections[""].get("data_dir")).expanduser())),
        path=Path(os.path.abspath(file)) if text is not None else None,
        origins=reader.origins,
    )


def parse_views(text: str, known_feeds: Iterable[str] = (), *, file: str = "") -> Fragment:
    """Read ``[[feeds]]`` and ``[[views]]`` from TOML, or from JSON of the same shape.

    Views may name a feed of the text or one of ``known_feeds``. ``file`` is for messages. Raises
    ConfigError with all mistakes.
    """
    problems = Problems(file)
    if text.lstrip().startswith("{"):
        document, lines = _json(text, file), None
    else:
        document, lines = _toml(text, file), Lines(text)
    reader = DocumentReader(problems, lines)
    reader.unknown(document, ("feeds", "views"))
    feeds, views = reader.items(document, "feeds"), reader.items(document, "views")
    if not document:
        problems.add("expected [[feeds]] or [[views]]")
    for feed in feeds:
        cross_checks.check_feed(reader, feed)
    names = {*known_feeds, *(feed.item for feed in feeds)}
    for view in views:
        cross_checks.check_view(reader, view, names)
    problems.finish()
    return Fragment(
        tuple(Feed(**feed.values) for feed in feeds), tuple(View(**view.values) for view in views)
    )


def _make_absolute(draft: Draft, folder: Path) -> None:
    """Make the TLS files of a server absolute: the server does not know the folder."""
    for name in ("tls_certificate", "tls_key", "tls_client_ca"):
        if name in draft.settings and draft.get(name):
            draft.values[name] = os.path.abspath(folder / Path(draft.get(name)).expanduser())


def _by_name(what: str, name: str, items: Iterable[_Item]) -> _Item:
    by_name = {item.name: item for item in items}
    if name in by_name:
        return by_name[name]
    near = nearest(name, by_name)
    hint = f'Did you mean "{near}"?' if near else f"Known: {', '.join(by_name) or 'none'}"
    raise ConfigError(f'unknown {what} "{name}"', hint=hint)


def _read(file: Path, *, may_be_missing: bool) -> str | None:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if may_be_missing:
            return None
        raise ConfigMissing(
            f"configuration file {Path(os.path.abspath(file))} not found",
            hint=f"Set --config or DISTRIBUTARY_CONFIG, or create {file.name} there:\n\n{EXAMPLE}",
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 (at byte {error.start})") from None
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found else len(text.splitlines()) or 1
        _refuse(file, f"invalid TOML: {_AT_LINE.sub('', str(error))}", line)
    except RecursionError:
        _refuse(file, "invalid TOML: nested too deeply")


def _json(text: str, file: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        _refuse(file, f"invalid JSON: {error.msg}", error.lineno)
    except (ValueError, RecursionError):
        _refuse(file, "invalid JSON: nested too deeply, or a number is too long")
    return document


def _refuse(file: str, message: str, line: int | None = None) -> NoReturn:
    problem = Problem(message, "", file, line)
    error = ConfigError(str(problem))
    error.problems = (problem,)
    raise error
