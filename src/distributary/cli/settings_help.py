"""The settings as help texts, from the table."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from distributary.config.coerce import bounds
from distributary.config.setting_field import Setting, display
from distributary.config.settings_table import GROUPS, SETTINGS

UNITS = (
    'Durations are seconds (30) or strings ("500 ms", "30 s", "5 minutes", "1h"); sizes are bytes or\n'
    'strings ("64k", "1 MiB"). Each setting can be given by its environment variable, which overrides the\n'
    "file."
)


def list_text(settings: Sequence[Setting] = SETTINGS, width: int = 100) -> str:
    """Describe settings one after another: key, default, what it does."""
    blocks = []
    for setting in settings:
        doc = textwrap.fill(setting.note.doc, width, initial_indent="      ", subsequent_indent="      ")
        blocks.append(f"  {setting.key} = {default(setting)}\n{doc}")
    return "\n".join(blocks)


def setting_text(setting: Setting) -> str:
    """Describe one setting in full."""
    note = setting.note
    rows = [("default", default(setting)), ("type", kind(setting)), ("environment", setting.env)]
    if note.choices:
        rows.append(("one of", ", ".join(note.choices)))
    if bounds(note):
        rows.append(("bounds", bounds(note)))
    if note.aliases:
        rows.append(("also written", ", ".join(note.aliases)))
    if note.example:
        rows.append(("example", f"{setting.name} = {note.example}"))
    lines = "\n".join(f"  {name:<13} {text}" for name, text in rows)
    return f"{setting.key}\n  {note.doc}\n\n{lines}"


def section_text(section: str) -> str:
    """Describe all settings of a section."""
    return list_text(GROUPS[section])


def default(setting: Setting) -> str:
    """The default as in the file, or "required"."""
    return "required" if setting.required else display(setting.note, setting.default)


def kind(setting: Setting) -> str:
    """The type in words, with the unit."""
    words = {"list": "list of strings", "table": "table of strings", "start": "string or time"}
    kind = words.get(setting.note.kind, setting.note.kind)
    unit = "" if setting.note.kind in ("duration", "size") else setting.note.unit
    return f"{kind} ({unit})" if unit else kind
