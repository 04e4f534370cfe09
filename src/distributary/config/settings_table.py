"""The table of all settings, in the order of the reference page, and the settings in force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from distributary.config.secrets import is_secret_property
from distributary.config.sections import SECTIONS
from distributary.config.setting_field import (
    DEFAULT,
    ITEMS,
    Origin,
    Setting,
    describe,
    display,
    masked,
    quote,
)
from distributary.model import value_checks
from distributary.model.feed import Feed, Topic
from distributary.model.setting_info import SettingInfo
from distributary.model.view import View

TOP: tuple[Setting, ...] = (
    Setting(
        section="",
        name="data_dir",
        default=".distributary",
        required=False,
        info=SettingInfo(
            doc="Folder for the data of the embedded components, relative to the configuration file.",
            kind="string",
            example='"/var/lib/distributary"',
            check=value_checks.not_blank,
        ),
    ),
)
FEED: tuple[Setting, ...] = describe("feeds", Feed)
TOPIC: tuple[Setting, ...] = describe("topics", Topic)
VIEW: tuple[Setting, ...] = describe("views", View)

GROUPS: Mapping[str, tuple[Setting, ...]] = MappingProxyType(
    {
        "": TOP,
        **{name: describe(name, cls) for name, cls in SECTIONS.items()},
        "topics": TOPIC,
        "feeds": FEED,
        "views": VIEW,
    }
)
"""Every setting, by section."""

SETTINGS: tuple[Setting, ...] = tuple(row for rows in GROUPS.values() for row in rows)
"""Every setting, in one list."""


@dataclass(frozen=True, slots=True)
class Effective:
    """One setting in force: ``value`` is fit for JSON, ``text`` is how the file would have it.

    ``secret`` says that there is a secret in it, which both do not show.
    """

    key: str
    value: Any
    text: str
    origin: Origin
    secret: bool = False


def effective(
    sections: Mapping[str, Any], items: Mapping[str, Iterable[Any]], origins: Mapping[str, Origin]
) -> Iterator[Effective]:
    """List every setting of ``sections`` ("" holds the top) and ``items``; a table's entries singly."""

    def rows(settings: tuple[Setting, ...], holder: object, item: str = "") -> Iterator[Effective]:
        for setting in settings:
            value = getattr(holder, setting.name)
            key = setting.key_of(item)
            if setting.info.kind == "table" and value:
                for entry, hidden in masked(setting.info, value).items():
                    origin = origins.get(f"{key}.{entry}", DEFAULT)
                    secret = setting.info.secret and is_secret_property(entry, value[entry])
                    yield Effective(f"{key}.{entry}", hidden, quote(hidden), origin, secret)
            else:
                shown = str(value) if setting in TOP else masked(setting.info, value)
                text = quote(shown) if setting in TOP else display(setting.info, value)
                secret = setting not in TOP and shown != (list(value) if isinstance(value, tuple) else value)
                yield Effective(key, shown, text, origins.get(key, DEFAULT), secret)

    for name in ("", *SECTIONS):
        yield from rows(GROUPS[name], sections[name])
    for name in ITEMS:
        for item in items[name]:
            yield from rows(GROUPS[name], item, item.name)
