"""The parameters and fields of requests: what each route accepts, declared at its handler, and reading it.

Anything else is rejected by name instead of being ignored. Names that other servers know, but that cannot
have an effect here, are declared too: they are accepted as long as their value requests nothing.
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
from distributary.httpd.request_body import parse_object

H = TypeVar("H", bound=Callable[..., Any])

_EMPTY_VALUES: tuple[Any, ...] = (None, False, "", 0, -1, [], {})
"""Values that request nothing; clients write -1 for a version, id or limit that is not given."""


class RequestFields(NamedTuple):
    """What a route accepts: ``query`` parameters and ``body`` fields, each of which has an effect.

    ``ignored`` names (of either kind) have no effect and must be empty. ``error_code`` is for all
    other names.
    """

    query: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    error_code: int = BAD_REQUEST


_DECLARED: dict[Any, RequestFields] = {}


def accepts(
    *,
    query: tuple[str, ...] = (),
    body: tuple[str, ...] = (),
    ignored: tuple[str, ...] = (),
    error_code: int = BAD_REQUEST,
) -> Callable[[H], H]:
    """Declare what requests to a handler may contain; a handler without this decorator accepts nothing."""

    def declare(handler: H) -> H:
        _DECLARED[handler] = RequestFields(query=query, body=body, ignored=ignored, error_code=error_code)
        return handler

    return declare


def accepted_fields(handler: Any) -> RequestFields:
    """Return what a handler declared."""
    return _DECLARED.get(inspect.unwrap(handler), RequestFields())


@web.middleware
async def reject_undeclared(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject a request with a parameter that its route does not accept."""
    if request.match_info.http_exception is None:
        fields = accepted_fields(request.match_info.handler)
        for name, text in request.query.items():
            _check(name, _parameter(text), fields.query, fields, f"{request.path} has an unknown parameter")
    return await handler(request)


def check_body(request: web.Request, body: Mapping[str, Any]) -> None:
    """Reject a body with a field that the request's route does not accept."""
    fields = accepted_fields(request.match_info.handler)
    for name, value in body.items():
        _check(name, value, fields.body, fields, "the body has an unknown field")


def check_entry(entry: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Reject an object within a body that has a field which is not ``known``."""
    for name in entry:
        if name not in known:
            raise unknown_field(name, known, where)


def unknown_field(name: str, known: Collection[str], where: str) -> GatewayError:
    """Create the error for a field that ``where`` does not accept; its hint suggests the nearest one."""
    return api_error(BAD_REQUEST, f"{where} has an unknown field {name[:80]!r}", suggestion(name, known))


def suggestion(name: str, known: Collection[str]) -> str:
    """List the known names; the one nearest to ``name`` comes first."""
    near = nearest(name, known)
    listed = f"accepted: {', '.join(known)}" if known else "none are accepted"
    return f'did you mean "{near}"? {listed}' if near else listed


def _check(name: str, value: Any, known: tuple[str, ...], fields: RequestFields, unknown: str) -> None:
    if name in known:
        return
    if name in fields.ignored:
        if value in _EMPTY_VALUES:
            return
        raise api_error(fields.error_code, f"{name} is not supported here", "leave it out")
    raise api_error(fields.error_code, f"{unknown} {name[:80]!r}", suggestion(name, known))


def _parameter(text: str) -> str | int | None:
    """Convert the strings by which a parameter requests nothing to such a value."""
    return {"false": None, "0": 0, "-1": -1}.get(text.lower(), text)


# --- reading ---


async def read_json(request: web.Request, *, empty: Any = None) -> Any:
    """Read the body as a JSON object with the fields that its route accepts.

    Returns ``empty``, if given, for an empty body.
    """
    data = await request.read()
    if empty is not None and not data.strip():
        return empty
    body = parse_object(data)
    check_body(request, body)
    return body


def flag(request: web.Request, name: str) -> bool:
    """Read a parameter that is true or false (the default)."""
    text = request.query.get(name, "false").lower()
    if text not in ("true", "false"):
        raise api_error(BAD_REQUEST, f"{name}={text[:40]!r} must be true or false")
    return text == "true"


def number(request: web.Request, name: str, default: int, *, low: int = 0, high: int = 2**63 - 1) -> int:
    """Read a parameter that is an integer."""
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.lstrip("-").isdigit() and text.isascii() and len(text) < 20 and low <= int(text) <= high):
        raise api_error(BAD_REQUEST, f"{name}={text[:40]!r} must be a number from {low} to {high}")
    return int(text)
