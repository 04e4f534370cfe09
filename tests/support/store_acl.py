"""The rights of a store's user, as the documentation has them."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-your-kafka-and-redis.md"


def documented_acl() -> list[str]:
    """The words of the rule: NAME on >PASSWORD …"""
    (rule,) = re.findall(
        r"^```text\nuser (.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return str(rule).split()
