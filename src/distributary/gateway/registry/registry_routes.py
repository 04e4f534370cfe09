"""The registry's addresses by subject: ``/subjects``, ``/compatibility``."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.gateway_access import grant_of
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.registry_requests import (
    DELETED_ONLY,
    LOG,
    PAGE,
    about,
    checker,
    deleted_only,
    local_prefix,
    page,
    reply,
    reply_text,
    sent_schema,
    subject_of,
    version_of,
)
from distributary.gateway.registry.schema_catalog import LATEST, Book
from distributary.gateway.registry.schemas_topic_records import Record, Version
from distributary.gateway.request_fields import accepts
from distributary.gateway.response_bodies import flag

_SCHEMA = ("schema", "schemaType", "references")
_IDLE = (
    "metadata",
    "ruleSet",
    "version",
    "id",
    "schemaTagsToAdd",
    "schemaTagsToRemove",
    "propagateSchemaTags",
)
"""What else Confluent's registry takes with a schema."""


def routes() -> list[web.RouteDef]:
    """List the registry's addresses."""
    return [
        web.get("/subjects", list_subjects),
        web.post("/subjects/{subject}", look_up),
        web.delete("/subjects/{subject}", delete_subject),
        web.get("/subjects/{subject}/versions", list_versions),
        web.post("/subjects/{subject}/versions", register),
        web.get("/subjects/{subject}/versions/{version}", show_version),
        web.get("/subjects/{subject}/versions/{version}/schema", show_version_schema),
        web.get("/subjects/{subject}/versions/{version}/referencedby", referenced_by),
        web.delete("/subjects/{subject}/versions/{version}", delete_version),
        web.post("/compatibility/subjects/{subject}/versions", test_all),
        web.post("/compatibility/subjects/{subject}/versions/{version}", test_one),
    ]


@accepts(query=("deleted", *DELETED_ONLY, "subjectPrefix", *PAGE))
async def list_subjects(request: web.Request) -> web.Response:
    """Name all subjects, in order."""
    book = await request.app[LOG].caught_up()
    prefix = local_prefix(request.query.get("subjectPrefix", ""))
    only = deleted_only(request)
    reads = grant_of(request).may_read_subject
    found = [name for name in book.subjects(deleted=only or flag(request, "deleted")) if reads(name)]
    live = set(book.subjects()) if only else ()
    return reply(page(request, [name for name in found if name.startswith(prefix) and name not in live]))


@accepts(query=("normalize",), body=_SCHEMA, ignored=(*_IDLE, "format", "force"))
async def register(request: web.Request) -> web.Response:
    """Register a schema as the subject's next version, unless it has it; gives ``id``."""
    subject, schema = subject_of(request), await sent_schema(request)
    return reply({"id": await checker(request).register(request.app[LOG], subject, schema)})


@accepts(query=("deleted", "normalize"), body=_SCHEMA, ignored=(*_IDLE, "format"))
async def look_up(request: web.Request) -> web.Response:
    """Find the version under which the subject has a schema."""
    schema = await sent_schema(request)
    book = await request.app[LOG].caught_up()
    return reply(_shown(book.lookup(subject_of(request), schema, deleted=flag(request, "deleted"))))


@accepts(query=("deleted", *DELETED_ONLY, "deletedAsNegative", *PAGE))
async def list_versions(request: web.Request) -> web.Response:
    """List the numbers of the subject's versions."""
    book, subject = await request.app[LOG].caught_up(), subject_of(request)
    deleted, only = flag(request, "deleted"), deleted_only(request)
    found = book.versions(subject, deleted=deleted or only)
    if flag(request, "deletedAsNegative"):
        signed = [-one.number if one.deleted else one.number for one in book.versions(subject, deleted=True)]
        return reply(page(request, signed))
    return reply(page(request, [one.number for one in found if one.deleted or not only]))


@accepts(query=("deleted",), ignored=("format", "referenceFormat", "reference_format", "findTags"))
async def show_version(request: web.Request) -> web.Response:
    """Show a version: its number, ``latest`` or ``-1``."""
    return reply(_shown(await version_of(request)))


@accepts(query=("deleted",), ignored=("format",))
async def show_version_schema(request: web.Request) -> web.Response:
    """Show only the schema of a version."""
    return reply_text((await version_of(request)).schema)


@accepts(query=("deleted", *PAGE))
async def referenced_by(request: web.Request) -> web.Response:
    """List the ids of schemas that refer to a version; only another registry writes such ones."""
    found = await version_of(request)
    users = request.app[LOG].book.referrers(found, deleted=flag(request, "deleted"))
    return reply(page(request, users))


@accepts(query=("permanent",))
async def delete_subject(request: web.Request) -> web.Response:
    """Hide all versions of the subject or, with ``permanent=true`` after that, delete them for good."""
    subject, permanent = subject_of(request), flag(request, "permanent")

    def decide(book: Book) -> tuple[list[int], list[Record]]:
        found = book.versions(subject, deleted=True)
        live = [one for one in found if not one.deleted]
        if permanent and live:
            raise api_error(
                RegistryCode.SUBJECT_NOT_SOFT_DELETED,
                f"the subject {subject!r} was not deleted before",
                "delete it without permanent=true first",
            )
        if not permanent and not live:
            raise api_error(
                RegistryCode.SUBJECT_SOFT_DELETED,
                f"the subject {subject!r} is deleted already",
                "permanent=true deletes it for good",
            )
        gone = found if permanent else live
        return [one.number for one in gone], book.delete(gone, permanent=permanent)

    return reply(await request.app[LOG].change(decide))


@accepts(query=("permanent",))
async def delete_version(request: web.Request) -> web.Response:
    """Hide one version or, with ``permanent=true`` after that, delete it for good."""
    subject, number = subject_of(request), request.match_info["version"]
    permanent = flag(request, "permanent")

    def decide(book: Book) -> tuple[int, list[Record]]:
        latest = number in LATEST
        found = book.version(subject, number, deleted=permanent or not latest)
        if permanent and not found.deleted:
            raise api_error(
                RegistryCode.VERSION_NOT_SOFT_DELETED,
                f"version {found.number} of {subject!r} was not deleted before",
                "delete it without permanent=true first",
            )
        if not permanent and found.deleted:
            raise api_error(
                RegistryCode.VERSION_SOFT_DELETED,
                f"version {found.number} of {subject!r} is deleted already",
                "permanent=true deletes it for good",
            )
        return found.number, book.delete([found], permanent=permanent)

    return reply(await request.app[LOG].change(decide))


@accepts(query=("verbose", "normalize"), body=_SCHEMA, ignored=_IDLE)
async def test_all(request: web.Request) -> web.Response:
    """Say whether a schema may become the subject's next version; ``verbose=true`` says why not."""
    schema = await sent_schema(request)
    book = await request.app[LOG].caught_up()
    return await _judged(request, schema, *book.compared(subject_of(request)))


@accepts(query=("verbose", "normalize"), body=_SCHEMA, ignored=_IDLE)
async def test_one(request: web.Request) -> web.Response:
    """Say whether a schema gets along with one version, by the subject's compatibility."""
    schema = await sent_schema(request)
    book, subject = await request.app[LOG].caught_up(), subject_of(request)
    against = book.tested(subject, request.match_info["version"])
    return await _judged(request, schema, *book.compared(subject, against))


async def _judged(request: web.Request, schema: Schema, mode: str, older: list[Schema]) -> web.Response:
    problems = await checker(request).incompatible(mode, schema, older)
    said: dict[str, Any] = {"is_compatible": not problems}
    if flag(request, "verbose"):
        said["messages"] = problems
    return reply(said)


def _shown(one: Version) -> dict[str, Any]:
    return {"subject": one.subject, "version": one.number, "id": one.id, **about(one.schema)}
