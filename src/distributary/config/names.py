"""The section ``[naming]``."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

from distributary.config.setting_field import Section, setting


def _pattern(text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what Python may read otherwise one day
            re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"expected a regular expression: {error}") from None
    return text


@dataclass(frozen=True, slots=True, repr=False)
class Naming(Section):
    """The naming convention, for commands that create topics and groups. Not set: any name, with a note."""

    topics: str | None = setting(
        None,
        "Regular expression that a new topic's whole name must match; `--force` overrides it. "
        "Not set: any name, with a note if it does not look like `sportsbook.odds`.",
        kind="text",
        optional=True,
        example=r"'(sportsbook|casino)\.[a-z.-]+'",
        check=_pattern,
    )
    groups: str | None = setting(
        None,
        "Regular expression that a new consumer group's whole name must match; `--force` overrides it. "
        "Not set: any name, with a note if it does not look like `shop.billing`.",
        kind="text",
        optional=True,
        example=r"'(sportsbook|casino)\.[a-z.-]+'",
        check=_pattern,
    )
