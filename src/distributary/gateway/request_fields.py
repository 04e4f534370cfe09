"""What a request may contain: every address declares its parameters and fields, next to its handler.

What is not declared is refused by name, never passed over. Names that other servers know, and that could have
no effect here, are declared too: they are taken as long as they ask for nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.config.problems import nearest
from distributary.errors import GatewayError
from distributary.gateway.error_codes import BAD_REQUEST, api_error

H = TypeVar("H", bound=Callable[..., Any])

_NOTHING: tuple[Any, ...] = (None, False, "", 0, -1, [], {})
"""Values that ask for nothing; -1 is how clients write that a version, an id or a limit is not given."""


class Takes(NamedTuple):
    """What an address takes: ``query`` parameters and ``body`` fields, each of which has an effect.

    ``idle`` are names of either that have none, and may only be empty. ``number`` is the error of others.
    """

    query: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    number: int = BAD_REQUEST


_TAKES: dict[Any, Takes] = {}


def takes(
    *,
    query: tuple[str, ...] = (),
    body: tuple[str, ...] = (),
    idle: tuple[str, ...] = (),
    number: int = BAD_REQUEST,
) -> Callable[[H], H]:
    """Declare what a handler's requests may contain; without it that is nothing."""

    def declare(handler: H) -> H:
        _TAKES[handler] = Takes(query, body, idle, number)
        return handler

    return declare


def taken(handler: Any) -> Takes:
    """Give what a handler declared."""
    return _TAKES.get(inspect.unwrap(handler), Takes())


@web.middleware
async def declared_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request with a parameter that its address does not take."""
    if request.match_info.http_exception is None:
        declared = taken(request.match_info.handler)
        for name, value in request.query.items():
            _check(name, _plain(value), declared.query, declared, f"{request.path} has an unknown parameter")
    return await handler(request)


def check_body(request: web.Request, body: Mapping[str, Any]) -> None:
    """Refuse a body with a field that the request's address does not take."""
    declared = taken(request.match_info.handler)
    for name, value in body.items():
        _check(name, value, declared.body, declared, "the body has an unknown field")


def check_entry(entry: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Refuse an object within a body that has a field which is not ``known``."""
    for name in entry:
        if name not in known:
            raise unknown_field(name, known, where)


def unknown_field(name: str, known: Collection[str], where: str) -> GatewayError:
    """Make the error of a field that ``where`` does not take; its hint has the nearest that it takes."""
    return api_error(BAD_REQUEST, f"{where} has an unknown field {name[:80]!r}", instead(name, known))


def instead(name: str, known: Collection[str]) -> str:
    """Say which names there are, the one nearest to ``name`` first."""
    near = nearest(name, known)
    listed = f"it takes {', '.join(known)}" if known else "it takes none"
    return f'did you mean "{near}"? {listed}' if near else listed


def _check(name: str, value: Any, known: tuple[str, ...], declared: Takes, unknown: str) -> None:
    if name in known:
        return
    if name in declared.idle:
        if value in _NOTHING:
            return
        raise api_error(declared.number, f"{name} is not supported here", "leave it out")
    raise api_error(declared.number, f"{unknown} {name[:80]!r}", instead(name, known))


def _plain(text: str) -> str | int | None:
    """Read the ways in which a parameter asks for nothing."""
    return {"false": None, "0": 0, "-1": -1}.get(text.lower(), text)
