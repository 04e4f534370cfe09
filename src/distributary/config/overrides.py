"""Values that stand over the file's: environment variables, then options. Both are texts by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from distributary.config.coerce import Faults, from_text
from distributary.config.document_reader import Draft, Origin, Reader
from distributary.config.problems import nearest
from distributary.config.setting_field import PREFIX, Setting

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
"""Variables with our prefix that are no settings (patterns)."""


def environment(reader: Reader, drafts: Iterable[Draft], env: Mapping[str, str]) -> None:
    """Set what ``DISTRIBUTARY_…`` variables say; one that matches no setting is a mistake."""
    targets: Targets = {}
    for draft, setting in _settable(drafts):
        targets.setdefault(setting.env_of(draft.item), []).append((draft, setting))
    ours = sorted(name for name in env if name.startswith(PREFIX))
    given = {name: env[name] for name in ours if not any(fnmatchcase(name, p) for p in NOT_SETTINGS)}
    _apply(reader, targets, given, "environment")


def options(reader: Reader, drafts: Iterable[Draft], given: Mapping[str, str]) -> None:
    """Set what ``overrides`` say, by key: ``kafka.port``, ``views.odds.ttl``."""
    targets: Targets = {
        setting.key_of(draft.item): [(draft, setting)] for draft, setting in _settable(drafts)
    }
    _apply(reader, targets, given, "option")


def _settable(drafts: Iterable[Draft]) -> Iterable[tuple[Draft, Setting]]:
    """All but the names of feeds and views: a name says which one is meant."""
    for draft in drafts:
        for setting in draft.settings.values():
            if not (draft.item and setting.name == "name"):
                yield draft, setting


def _apply(reader: Reader, targets: Targets, given: Mapping[str, str], kind: str) -> None:
    def refuse(message: str, key: str, near: str = "") -> None:
        reader.problems.add(message, key=key, nearest=near, file=kind)

    for name, text in given.items():
        found = targets.get(name, [])
        if not found:
            refuse("matches no setting", name, nearest(name, targets))
        elif len(found) > 1:
            keys = " and ".join(draft.key(setting.name) for draft, setting in found)
            refuse(f"may mean {keys}; set them in the file", name)
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
