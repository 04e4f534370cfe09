"""The naming convention for topics and groups, and which application a client belongs to. Pure.

By convention a name is words joined by dots: its owner, then what it is (``sportsbook.odds``). A word is a
lower-case letter, then lower-case letters, digits and hyphens. It is not mandatory: other names get a
warning. ``naming.topics`` and ``naming.groups`` set a convention that is enforced, by regular expression. A
client's application is the first word of its client id: ``sportsbook-7`` belongs to ``sportsbook``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from distributary.errors import NameRefused

CONVENTION = r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+"
"""The suggested convention, enforced only if a setting names it."""
ANY = ".*"
"""A convention that every name follows."""

_KAFKA = re.compile(r"[A-Za-z0-9._-]{1,249}")
_WORD = re.compile(r"[A-Za-z0-9]+")


def check_topic(name: str, pattern: str | None = None) -> str:
    """Check a new topic's name; returns a warning for the user, or "".

    ``pattern`` is ``naming.topics``. None accepts any name, with a warning if it does not follow the
    convention. Raises NameRefused for a name that does not match the pattern, or that Kafka does not accept.
    """
    if not _KAFKA.fullmatch(name) or name in (".", ".."):
        near = suggestion(name)
        raise NameRefused(
            f"topic {name!r} is not valid: Kafka accepts 1 to 249 of a-z A-Z 0-9 . _ -",
            hint=f"Call it {near!r}" if near else "",
        )
    return _check("topic", name, pattern)


def check_group(name: str, pattern: str | None = None) -> str:
    """As `check_topic`, for a consumer group and ``naming.groups``; Kafka accepts any but an empty name."""
    if not name.strip():
        raise NameRefused(
            "a group needs a name", hint="Name it after its application and purpose: shop.billing"
        )
    return _check("group", name, pattern)


def suggestion(name: str) -> str:
    """The name by the convention that is nearest to this one; "" if there is none."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    words = ["-".join(_WORD.findall(part)).lower() for part in spaced.split(".")]
    near = ".".join(word for word in words if word)
    return near if re.fullmatch(CONVENTION, near) and len(near) < 250 else ""


def application(client_id: str) -> str:
    """The application that a client belongs to: the first word of its id."""
    return re.split(r"[^A-Za-z0-9]", client_id, maxsplit=1)[0].lower()


def foreign_client_ids(client_ids: Iterable[str], own: str) -> list[str]:
    """The client ids in a group that belong to another application than ``own``, a client id."""
    return sorted({one for one in client_ids if application(one) != application(own)})


def _check(kind: str, name: str, pattern: str | None) -> str:
    if re.fullmatch(pattern or CONVENTION, name, re.DOTALL):
        return ""
    near = suggestion(name)
    if not pattern:
        return (
            f"{kind} {name!r} does not follow the naming convention: lower-case words joined by dots, "
            f"such as {near or 'sportsbook.odds'}. To enforce a convention, set naming.{kind}s in "
            f'distributary.toml; naming.{kind}s = "{ANY}" turns this warning off'
        )
    call = f"Call it {near!r}" if near and re.fullmatch(pattern, near) else "Choose a name that matches it"
    raise NameRefused(
        f"{kind} {name!r} does not follow the convention {pattern} (naming.{kind}s)",
        hint=f"{call}, or give --force",
    )
