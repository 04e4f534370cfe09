"""The REST proxy's media types: ``application/vnd.kafka[.FORMAT].vN+json``. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from distributary.gateway.error_codes import RestCode, api_error
from distributary.httpd.content_negotiation import choose

FORMATS = ("binary", "json", "avro", "jsonschema")
"""How the keys and values of records are written in bodies."""

LATEST = 2
_TYPE = re.compile(r"application/vnd\.kafka(?:\.(\w+))?(?:\.v([12]))?\+json")


class Media(NamedTuple):
    """What a media type says: the version, and the format of embedded records, "" where it says none."""

    version: int = LATEST
    format: str = ""

    @property
    def text(self) -> str:
        """Write it as a media type."""
        return f"application/vnd.kafka.{f'{self.format}.' if self.format else ''}v{self.version}+json"


def of_body(header: str) -> Media:
    """Read a Content-Type; plain JSON, or none, is the latest version's. Raises GatewayError (415)."""
    kind = header.partition(";")[0].strip().lower()
    if kind in ("", "application/json", "application/octet-stream"):
        return Media()
    found = _media(kind)
    if found is None:
        raise api_error(
            415,
            f"bodies of the type {kind[:80]!r} are not read",
            f"send application/vnd.kafka.FORMAT.v2+json, FORMAT being {', '.join(FORMATS)}",
        )
    return found


def of_accept(header: str) -> Media:
    """Read what an Accept header likes best of what the proxy speaks. Raises GatewayError (406)."""
    kinds = [part.partition(";")[0].strip().lower() for part in header.split(",")]
    known = [kind for kind in kinds if _media(kind) is not None]
    best = choose(header, [*known, "application/json"])
    if best is None:
        raise api_error(
            RestCode.CONSUMER_FORMAT_MISMATCH,
            f"no type of {header[:120]!r} is offered",
            f"accept application/vnd.kafka.FORMAT.v2+json, FORMAT being {', '.join(FORMATS)}",
        )
    return _media(best) or Media(0)


def _media(kind: str) -> Media | None:
    found = _TYPE.fullmatch(kind)
    if found is None:
        return None
    name, version = found[1] or "", int(found[2] or LATEST)
    if name in ("v1", "v2"):  # "application/vnd.kafka.v1+json": what looks like a format is the version
        name, version = "", int(name[1])
    return Media(version, name) if name in ("", *FORMATS) else None


def reply_type(header: str) -> str:
    """Name the type of a reply with no records in it, by the request's Accept."""
    media = of_accept(header)
    return Media(media.version).text if media.version else "application/json"
