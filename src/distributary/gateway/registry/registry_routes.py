"""The registry's routes ``/subjects`` (versions by subject) and ``/schemas`` (schemas by id)."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry.registered_schema import KINDS
from distributary.gateway.registry.registry_requests import (
    DELETED_ONLY,
    IGNORED_IN_BODY,
    PAGE,
    SCHEMA_BODY,
    SCHEMA_LOG,
    deleted_only,
    describe_schema,
    json_response,
    local_prefix,
    page,
    read_schema,
    schema_checker,
    schema_in_path,
    schema_response,
    subject_in_path,
    version_in_path,
)
from distributary.gateway.registry.schema_catalog import LATEST, SchemaCatalog
from distributary.gateway.registry.schemas_topic_records import Record, SchemaVersion, local_subject
from distributary.gateway.request_fields import accepts, flag
from distributary.httpd.authorization import Requirement, Route, grant_of

_IGNORED_BY_ID = ("format", "referenceFormat", "reference_format", "findTags", "fetchMaxId")


def routes() -> list[Route]:
    """List the routes."""
    return [
        Route("GET", "/subjects", list_subjects, Requirement.USER),
        Route("POST", "/subjects/{subject}", look_up, Requirement.SUBJECT),
        Route("DELETE", "/subjects/{subject}", delete_subject, Requirement.OPERATE),
        Route("GET", "/subjects/{subject}/versions", list_versions, Requirement.SUBJECT),
        Route("POST", "/subjects/{subject}/versions", register, Requirement.REGISTER),
        Route("GET", "/subjects/{subject}/versions/{version}", show_version, Requirement.SUBJECT),
        Route(
            "GET", "/subjects/{subject}/versions/{version}/schema", show_version_schema, Requirement.SUBJECT
        ),
        Route(
            "GET", "/subjects/{subject}/versions/{version}/referencedby", referenced_by, Requirement.SUBJECT
        ),
        Route("DELETE", "/subjects/{subject}/versions/{version}", delete_version, Requirement.OPERATE),
        Route("GET", "/schemas/types", list_types, Requirement.USER),
        Route("GET", "/schemas/ids/{id}", show_schema, Requirement.USER),
        Route("GET", "/schemas/ids/{id}/schema", show_schema_text, Requirement.USER),
        Route("GET", "/schemas/ids/{id}/subjects", list_subjects_of_schema, Requirement.USER),
        Route("GET", "/schemas/ids/{id}/versions", list_versions_of_schema, Requirement.USER),
    ]


# --- by subject ---


@accepts(query=("deleted", *DELETED_ONLY, "subjectPrefix", *PAGE))
async def list_subjects(request: web.Request) -> web.Response:
    """List all subjects in alphabetical order."""
    catalog = await request.app[SCHEMA_LOG].caught_up()
    prefix = local_prefix(request.query.get("subjectPrefix", ""))
    only_deleted = deleted_only(request)
    may_read = grant_of(request).may_read_subject
    found = [
        name for name in catalog.subjects(deleted=only_deleted or flag(request, "deleted")) if may_read(name)
    ]
    live = set(catalog.subjects()) if only_deleted else ()
    return json_response(
        page(request, [name for name in found if name.startswith(prefix) and name not in live])
    )


@accepts(query=("normalize",), body=SCHEMA_BODY, ignored=(*IGNORED_IN_BODY, "format", "force"))
async def register(request: web.Request) -> web.Response:
    """Register a schema as the next version of the subject, unless it has it already; returns ``id``."""
    subject, schema = subject_in_path(request), await read_schema(request)
    return json_response(
        {"id": await schema_checker(request).register(request.app[SCHEMA_LOG], subject, schema)}
    )


@accepts(query=("deleted", "normalize"), body=SCHEMA_BODY, ignored=(*IGNORED_IN_BODY, "format"))
async def look_up(request: web.Request) -> web.Response:
    """Find the version under which the subject has a schema."""
    schema = await read_schema(request)
    catalog = await request.app[SCHEMA_LOG].caught_up()
    found = catalog.look_up(subject_in_path(request), schema, deleted=flag(request, "deleted"))
    return json_response(_describe_version(found))


@accepts(query=("deleted", *DELETED_ONLY, "deletedAsNegative", *PAGE))
async def list_versions(request: web.Request) -> web.Response:
    """List the version numbers of the subject."""
    catalog, subject = await request.app[SCHEMA_LOG].caught_up(), subject_in_path(request)
    deleted, only_deleted = flag(request, "deleted"), deleted_only(request)
    found = catalog.versions(subject, deleted=deleted or only_deleted)
    if flag(request, "deletedAsNegative"):
        everything = catalog.versions(subject, deleted=True)
        signed = [-version.number if version.deleted else version.number for version in everything]
        return json_response(page(request, signed))
    numbers = [version.number for version in found if version.deleted or not only_deleted]
    return json_response(page(request, numbers))


@accepts(query=("deleted",), ignored=("format", "referenceFormat", "reference_format", "findTags"))
async def show_version(request: web.Request) -> web.Response:
    """Show a version, given by its number, ``latest`` or ``-1``."""
    return json_response(_describe_version(await version_in_path(request)))


@accepts(query=("deleted",), ignored=("format",))
async def show_version_schema(request: web.Request) -> web.Response:
    """Show only the schema of a version."""
    return schema_response((await version_in_path(request)).schema)


@accepts(query=("deleted", *PAGE))
async def referenced_by(request: web.Request) -> web.Response:
    """List the ids of the schemas that refer to a version; only other registries write such schemas."""
    version = await version_in_path(request)
    ids = request.app[SCHEMA_LOG].catalog.referrers(version, deleted=flag(request, "deleted"))
    return json_response(page(request, ids))


@accepts(query=("permanent",))
async def delete_subject(request: web.Request) -> web.Response:
    """Hide all versions of the subject or, with ``permanent=true`` after that, delete them for good."""
    subject, permanent = subject_in_path(request), flag(request, "permanent")

    def decide(catalog: SchemaCatalog) -> tuple[list[int], list[Record]]:
        versions = catalog.versions(subject, deleted=True)
        live = [version for version in versions if not version.deleted]
        if permanent and live:
            raise api_error(
                RegistryCode.SUBJECT_NOT_SOFT_DELETED,
                f"the subject {subject!r} is not deleted yet",
                "delete it without permanent=true first",
            )
        if not permanent and not live:
            raise api_error(
                RegistryCode.SUBJECT_SOFT_DELETED,
                f"the subject {subject!r} is already deleted",
                "permanent=true deletes it for good",
            )
        removed = versions if permanent else live
        return [version.number for version in removed], catalog.delete(removed, permanent=permanent)

    return json_response(await request.app[SCHEMA_LOG].change(decide))


@accepts(query=("permanent",))
async def delete_version(request: web.Request) -> web.Response:
    """Hide one version or, with ``permanent=true`` after that, delete it for good."""
    subject, number = subject_in_path(request), request.match_info["version"]
    permanent = flag(request, "permanent")

    def decide(catalog: SchemaCatalog) -> tuple[int, list[Record]]:
        latest = number in LATEST
        version = catalog.version(subject, number, deleted=permanent or not latest)
        if permanent and not version.deleted:
            raise api_error(
                RegistryCode.VERSION_NOT_SOFT_DELETED,
                f"version {version.number} of {subject!r} is not deleted yet",
                "delete it without permanent=true first",
            )
        if not permanent and version.deleted:
            raise api_error(
                RegistryCode.VERSION_SOFT_DELETED,
                f"version {version.number} of {subject!r} is already deleted",
                "permanent=true deletes it for good",
            )
        return version.number, catalog.delete([version], permanent=permanent)

    return json_response(await request.app[SCHEMA_LOG].change(decide))


def _describe_version(version: SchemaVersion) -> dict[str, Any]:
    return {
        "subject": version.subject,
        "version": version.number,
        "id": version.id,
        **describe_schema(version.schema),
    }


# --- by id ---


async def list_types(request: web.Request) -> web.Response:
    """List the types of schema that can be registered."""
    return json_response(list(KINDS))


@accepts(query=("subject",), ignored=_IGNORED_BY_ID)
async def show_schema(request: web.Request) -> web.Response:
    """Show the schema with an id."""
    _check_context(request)
    return json_response(describe_schema(await schema_in_path(request)))


@accepts(query=("subject",), ignored=_IGNORED_BY_ID)
async def show_schema_text(request: web.Request) -> web.Response:
    """Show only the text of the schema with an id."""
    _check_context(request)
    return schema_response(await schema_in_path(request))


@accepts(query=("subject", "deleted", *PAGE))
async def list_subjects_of_schema(request: web.Request) -> web.Response:
    """List the subjects that have the schema with an id."""
    subjects = {version.subject for version in await _versions_of_schema(request)}
    return json_response(page(request, sorted(subjects)))


@accepts(query=("subject", "deleted", *PAGE))
async def list_versions_of_schema(request: web.Request) -> web.Response:
    """List the subjects and versions that have the schema with an id."""
    versions = page(request, await _versions_of_schema(request))
    return json_response([{"subject": one.subject, "version": one.number} for one in versions])


def _check_context(request: web.Request) -> None:
    """Reject a ``subject`` of another context: ids differ between contexts."""
    local_subject(request.query.get("subject", ""))


async def _versions_of_schema(request: web.Request) -> list[SchemaVersion]:
    _check_context(request)
    await schema_in_path(request)
    id = int(request.match_info["id"])
    versions = request.app[SCHEMA_LOG].catalog.versions_of_id(id, deleted=flag(request, "deleted"))
    return [version for version in versions if grant_of(request).may_read_subject(version.subject)]
