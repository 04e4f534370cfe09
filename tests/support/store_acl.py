"""The ACL of the store's user, as documented."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-your-kafka-and-redis.md"


def documented_acl() -> list[str]:
    """The words of the ACL: NAME on >PASSWORD …"""
    (rule,) = re.findall(
        r"^```text\nuser (.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return str(rule).split()
