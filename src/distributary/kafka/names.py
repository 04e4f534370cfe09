"""The naming convention of topics and groups, and whose a group is. Pure.

A name is words joined by dots: who it belongs to, then what it is (``sportsbook.odds``). A word is a
lower-case letter, then letters, digits and hyphens. ``names.topics`` and ``names.groups`` may say otherwise,
by regular expression. A client's application is the first word of its client id: ``sportsbook-7`` is of
``sportsbook``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from distributary.config.names import Names
from distributary.errors import NameRefused

CONVENTION = Names().topics

_KAFKA = re.compile(r"[A-Za-z0-9._-]{1,249}")
_WORD = re.compile(r"[A-Za-z0-9]+")


def check_topic(name: str, pattern: str = CONVENTION) -> None:
    """Raise NameRefused unless a topic may be called so; "" allows whatever Kafka does."""
    if not _KAFKA.fullmatch(name) or name in (".", ".."):
        raise NameRefused(f"topic {name!r}: Kafka takes up to 249 of a-z A-Z 0-9 . _ -", hint=_hint(name, ""))
    _check("topic", name, pattern)


def check_group(name: str, pattern: str = CONVENTION) -> None:
    """Raise NameRefused unless a group may be called so; "" allows any but the empty name."""
    if not name.strip():
        raise NameRefused(
            "a group needs a name", hint="Name it after its application and purpose: shop.billing"
        )
    _check("group", name, pattern)


def suggestion(name: str) -> str:
    """A name by the convention that is near to this one; "" when there is none."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    words = ["-".join(_WORD.findall(part)).lower() for part in spaced.split(".")]
    near = ".".join(word for word in words if word)
    return near if re.fullmatch(CONVENTION, near) and len(near) < 250 else ""


def application(client_id: str) -> str:
    """Whose client it is: the first word of its id."""
    return re.split(r"[^A-Za-z0-9]", client_id, maxsplit=1)[0].lower()


def strangers(client_ids: Iterable[str], own: str) -> list[str]:
    """Those of a group's members that are of another application than ``own``, a client id."""
    return sorted({one for one in client_ids if application(one) != application(own)})


def _check(kind: str, name: str, pattern: str) -> None:
    if pattern and not re.fullmatch(pattern, name):
        raise NameRefused(
            f"{kind} {name!r} does not follow the convention {pattern}", hint=_hint(name, pattern)
        )


def _hint(name: str, pattern: str) -> str:
    near = suggestion(name)
    if near and (not pattern or re.fullmatch(pattern, near)):
        return f"Call it {near!r}, or give --force"
    return "Name it after what it belongs to and what it is (sportsbook.odds), or give --force"
