"""The settings in force, one by one, with where each came from. Secrets are hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from distributary.config.document_reader import DEFAULT, Origin
from distributary.config.secrets import is_secret_property
from distributary.config.setting_field import ITEMS, Setting, display, masked, quote
from distributary.config.settings_table import GROUPS, SECTIONS, TOP


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
            if setting.note.kind == "table" and value:
                for entry, hidden in masked(setting.note, value).items():
                    origin = origins.get(f"{key}.{entry}", DEFAULT)
                    secret = setting.note.secret and is_secret_property(entry, value[entry])
                    yield Effective(f"{key}.{entry}", hidden, quote(hidden), origin, secret)
            else:
                shown = str(value) if setting in TOP else masked(setting.note, value)
                text = quote(shown) if setting in TOP else display(setting.note, value)
                secret = setting not in TOP and shown != (list(value) if isinstance(value, tuple) else value)
                yield Effective(key, shown, text, origins.get(key, DEFAULT), secret)

    for name in ("", *SECTIONS):
        yield from rows(GROUPS[name], sections[name])
    for name in ITEMS:
        for item in items[name]:
            yield from rows(GROUPS[name], item, item.name)
