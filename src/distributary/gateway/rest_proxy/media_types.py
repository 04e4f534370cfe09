"""The REST proxy's media types: ``application/vnd.kafka[.FORMAT].vN+json``. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from distributary.gateway.error_codes import RestCode, api_error
from distributary.gateway.rest_proxy.serialization import FORMATS
from distributary.httpd.content_negotiation import choose

LATEST = 2
_TYPE = re.compile(r"application/vnd\.kafka(?:\.(\w+))?(?:\.v([12]))?\+json")
_EXPECTED = f"application/vnd.kafka.FORMAT.v2+json, where FORMAT is one of {', '.join(FORMATS)}"


class MediaType(NamedTuple):
    """A version of the API (0: not given), and the format of embedded records ("": not given)."""

    version: int = LATEST
    format: str = ""

    @property
    def text(self) -> str:
        """Its text in headers."""
        return f"application/vnd.kafka.{f'{self.format}.' if self.format else ''}v{self.version}+json"


def parse_content_type(header: str) -> MediaType:
    """Parse a Content-Type; plain JSON, or none, means the latest version. Raises GatewayError (415)."""
    kind = header.partition(";")[0].strip().lower()
    if kind in ("", "application/json", "application/octet-stream"):
        return MediaType()
    found = _parse(kind)
    if found is None:
        raise api_error(415, f"content type {kind[:80]!r} is not supported", f"send {_EXPECTED}")
    return found


def parse_accept(header: str) -> MediaType:
    """Choose the supported type that an Accept header prefers. Raises GatewayError (406)."""
    kinds = [part.partition(";")[0].strip().lower() for part in header.split(",")]
    known = [kind for kind in kinds if _parse(kind) is not None]
    best = choose(header, [*known, "application/json"])
    if best is None:
        raise api_error(
            RestCode.CONSUMER_FORMAT_MISMATCH,
            f"none of the types {header[:120]!r} is offered",
            f"accept {_EXPECTED}",
        )
    return _parse(best) or MediaType(0)


def _parse(kind: str) -> MediaType | None:
    found = _TYPE.fullmatch(kind)
    if found is None:
        return None
    name, version = found[1] or "", int(found[2] or LATEST)
    if name in ("v1", "v2"):  # "application/vnd.kafka.v1+json": what looks like a format is the version
        name, version = "", int(name[1])
    return MediaType(version, name) if name in ("", *FORMATS) else None


def response_type(accept: str) -> str:
    """Return the type of a response without records, by the request's Accept header."""
    media_type = parse_accept(accept)
    return MediaType(media_type.version).text if media_type.version else "application/json"
