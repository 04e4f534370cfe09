"""Requests whose credentials stay with the host that they are for.

Left to itself, urllib repeats every header of a request, ``Authorization`` and ``X-API-Key`` too, to whatever
address a reply names.
"""

from __future__ import annotations

import urllib.request
from typing import IO, Any
from urllib.error import URLError
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


class SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirect within a host and port, or from http to https of a host; raises URLError else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Make the request that follows a redirect."""
        if not same_host(req.full_url, newurl):
            fp.close()
            raise URLError(
                f"it redirects to {urlsplit(newurl).netloc[:100]!r}, where credentials are not sent"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def same_host(url: str, target: str) -> bool:
    """Say whether credentials for one address may go to another."""
    one, other = urlsplit(url), urlsplit(target)
    try:
        ports = one.port or _PORTS.get(one.scheme), other.port or _PORTS.get(other.scheme)
    except ValueError:
        return False
    if one.hostname != other.hostname or other.hostname is None:
        return False
    return (one.scheme == other.scheme and ports[0] == ports[1]) or (
        (one.scheme, other.scheme) == ("http", "https")
    )


def opener(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Make what opens requests, by `SameHost` and other handlers."""
    return urllib.request.build_opener(SameHost(), *handlers)
