"""What every reply forbids a browser: to guess its type, to run anything in it, to show it in a frame."""

from __future__ import annotations

from aiohttp import web

SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Replies are data; a page that runs scripts has a policy of its own."""


async def add_safe_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add them to a reply that does not have them; for ``on_response_prepare``."""
    for name, value in SAFE.items():
        response.headers.setdefault(name, value)
