"""The registry's addresses by a schema's id: ``/schemas``."""

from __future__ import annotations

from aiohttp import web

from distributary.gateway.gateway_access import grant_of
from distributary.gateway.registry.registered_schema import KINDS
from distributary.gateway.registry.registry_requests import (
    LOG,
    PAGE,
    about,
    page,
    reply,
    reply_text,
    schema_by_address,
)
from distributary.gateway.registry.schemas_topic_records import Version, local_name
from distributary.gateway.request_fields import accepts
from distributary.gateway.response_bodies import flag

_IDLE = ("format", "referenceFormat", "reference_format", "findTags", "fetchMaxId")


def routes() -> list[web.RouteDef]:
    """List the addresses."""
    return [
        web.get("/schemas/types", list_types),
        web.get("/schemas/ids/{id}", show_schema),
        web.get("/schemas/ids/{id}/schema", show_schema_text),
        web.get("/schemas/ids/{id}/subjects", list_subjects),
        web.get("/schemas/ids/{id}/versions", list_versions),
    ]


async def list_types(request: web.Request) -> web.Response:
    """Name the kinds of schema that can be registered."""
    return reply(list(KINDS))


@accepts(query=("subject",), ignored=_IDLE)
async def show_schema(request: web.Request) -> web.Response:
    """Show the schema of an id."""
    _check_context(request)
    return reply(about(await schema_by_address(request)))


@accepts(query=("subject",), ignored=_IDLE)
async def show_schema_text(request: web.Request) -> web.Response:
    """Show only the schema's own text."""
    _check_context(request)
    return reply_text(await schema_by_address(request))


@accepts(query=("subject", "deleted", *PAGE))
async def list_subjects(request: web.Request) -> web.Response:
    """Name the subjects that have the schema of an id."""
    return reply(page(request, sorted({one.subject for one in await _users(request)})))


@accepts(query=("subject", "deleted", *PAGE))
async def list_versions(request: web.Request) -> web.Response:
    """List subjects and versions that have the schema of an id."""
    found = await _users(request)
    return reply([{"subject": one.subject, "version": one.number} for one in page(request, found)])


def _check_context(request: web.Request) -> None:
    """Refuse a ``subject`` of another context, whose ids are others."""
    local_name(request.query.get("subject", ""))


async def _users(request: web.Request) -> list[Version]:
    _check_context(request)
    await schema_by_address(request)
    number = int(request.match_info["id"])
    found = request.app[LOG].book.users(number, deleted=flag(request, "deleted"))
    return [one for one in found if grant_of(request).may_read_subject(one.subject)]
