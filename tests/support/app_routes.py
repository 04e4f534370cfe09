"""The routes that an aiohttp application serves, to compare them with a server's table."""

from __future__ import annotations

from aiohttp import web


def route_names(app: web.Application) -> set[str]:
    """Every ``METHOD /path``; HEAD goes along with GET, as does a slash at the end."""
    return {
        f"{route.method} {route.resource.canonical.rstrip('/') or '/'}"
        for route in app.router.routes()
        if route.method != "HEAD" and route.resource is not None
    }
