"""The page of all settings, from the table."""

from __future__ import annotations

from distributary.cli.settings_commands import default, kind
from distributary.config.coerce import bounds
from distributary.config.document_reader import NOT_SETTINGS
from distributary.config.loader import EXAMPLE
from distributary.config.sections import SECTIONS
from distributary.config.setting_field import ITEMS, Section, Setting
from distributary.config.settings_table import GROUPS

_INTRO = """\
# Configuration

<!-- Made by `python -m distributary.docgen` from src/distributary/config/. Do not edit. -->

Distributary reads one file, `distributary.toml`: the one given by `--config`, else the one given by
`DISTRIBUTARY_CONFIG`, else the one in the working folder. `distributary config` checks it and prints
every setting with its source.

The smallest useful file:

```toml
{example}```

- Every setting can also be given by its environment variable, which overrides the file. Feeds and views
  are defined in the file; a variable changes one of their keys. It contains the name in upper case, with
  `-` and `.` as `_`: `DISTRIBUTARY_VIEWS_ODDS_TTL`.
- An unknown key is an error, and so is a variable that begins with `DISTRIBUTARY_` and matches no setting.
  These variables are not settings: {others}.
- Durations are seconds (`30`) or strings: `"500 ms"`, `"30 s"`, `"5 minutes"`, `"1h"`, `"2 days"`. Where
  a setting has no limit, `"never"`.
- Sizes are bytes (`65536`) or strings: `"64k"`, `"1 MiB"`, `"2g"`. Units are powers of 1024.
- In a variable, the items of a list are separated by commas. A table is a JSON object, or `name=value`
  pairs separated by commas; its entries are added to those of the file.
- Passwords in addresses and secret properties are never printed.
"""

_TITLES = {"": "The top of the file", **{name: f"[[{name}]]" for name in ITEMS}}


def page() -> str:
    """The whole page."""
    others = ", ".join(f"`{name}`" for name in NOT_SETTINGS)
    parts = [_INTRO.format(example=EXAMPLE, others=others)]
    for section, settings in GROUPS.items():
        title = _TITLES.get(section, f"[{section}]")
        parts.append(f"## {title}\n\n{_about(section)}{''.join(map(_entry, settings))}".rstrip() + "\n")
    return "\n".join(parts)


def _about(section: str) -> str:
    cls: type[Section] | None = SECTIONS.get(section)
    about = {
        "topics": "Which records a topic accepts, whichever component writes them: the gateway, a publisher\n"
        "for its subscribers, `distributary produce`.",
        "feeds": "Where records come from: a Kafka topic and how to read it.",
        "views": "Rows that are computed from a feed. `key`, `select`, `where` and `time` are Spark SQL\n"
        "over the fields of the value and over `record_key`, `record_timestamp`, `record_headers`,\n"
        "`record_partition` and `record_offset`.",
    }.get(section, (cls.__doc__ or "") if cls else "")
    return f"{about}\n\n" if about else ""


def _entry(setting: Setting) -> str:
    info = setting.info
    facts = [f"- Default: {default(setting) if setting.required else f'`{default(setting)}`'}"]
    facts.append(f"- Type: {kind(setting)}")
    if info.choices:
        facts.append(f"- One of: {', '.join(f'`{choice}`' for choice in info.choices)}")
    if bounds(info):
        facts.append(f"- Bounds: {bounds(info)}")
    if info.aliases:
        facts.append(f"- Also written: {', '.join(f'`{alias}`' for alias in info.aliases)}")
    if info.example:
        facts.append(f"- Example: `{setting.name} = {info.example}`")
    if setting.name != "name":
        facts.append(f"- Environment: `{setting.env}`")
    return f"### `{setting.key}`\n\n{info.doc}\n\n" + "\n".join(facts) + "\n\n"
