"""The section ``[names]``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from distributary.config.setting import Section, setting

_CONVENTION = r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+"


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"expected a regular expression: {error}") from None
    return text


@dataclass(frozen=True, slots=True, repr=False)
class Names(Section):
    """What topics and groups may be called. The commands that make them refuse others without --force."""

    topics: str = setting(
        _CONVENTION,
        "Regular expression that a new topic's whole name must match. Empty: whatever Kafka takes.",
        example=r"'(sportsbook|casino)\.[a-z.-]+'",
        check=_pattern,
    )
    groups: str = setting(
        _CONVENTION,
        "Regular expression that a new consumer group's whole name must match. Empty: any.",
        example=r"'(sportsbook|casino)\.[a-z.-]+'",
        check=_pattern,
    )
