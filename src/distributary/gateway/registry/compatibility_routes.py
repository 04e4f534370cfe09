"""The registry's routes ``/compatibility``, ``/config`` (compatibility levels) and ``/mode``."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry.registered_schema import COMPATIBILITY_LEVELS, Schema
from distributary.gateway.registry.registry_requests import (
    IGNORED_IN_BODY,
    SCHEMA_BODY,
    SCHEMA_LOG,
    json_response,
    read_schema,
    schema_checker,
    subject_in_path,
    subject_or_global,
)
from distributary.gateway.registry.schema_catalog import SchemaCatalog
from distributary.gateway.registry.schemas_topic_records import Record
from distributary.gateway.request_fields import accepts, flag, read_json
from distributary.httpd.authorization import Requirement, Route

_IGNORED_IN_CONFIG = (
    "alias",
    "aliasForDeks",
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)
"""What else Confluent's registry accepts in a config."""


def routes() -> list[Route]:
    """List the routes."""
    return [
        Route("POST", "/compatibility/subjects/{subject}/versions", test_all, Requirement.SUBJECT),
        Route("POST", "/compatibility/subjects/{subject}/versions/{version}", test_one, Requirement.SUBJECT),
        Route("GET", "/config", show_compatibility, Requirement.USER),
        Route("PUT", "/config", set_compatibility, Requirement.OPERATE),
        Route("DELETE", "/config", reset_compatibility, Requirement.OPERATE),
        Route("GET", "/config/{subject}", show_compatibility, Requirement.SUBJECT),
        Route("PUT", "/config/{subject}", set_compatibility, Requirement.OPERATE),
        Route("DELETE", "/config/{subject}", reset_compatibility, Requirement.OPERATE),
        Route("GET", "/mode", show_mode, Requirement.USER),
        Route("GET", "/mode/{subject}", show_mode, Requirement.SUBJECT),
    ]


@accepts(query=("verbose", "normalize"), body=SCHEMA_BODY, ignored=IGNORED_IN_BODY)
async def test_all(request: web.Request) -> web.Response:
    """Test whether a schema can become the subject's next version; ``verbose=true`` adds the reasons."""
    schema = await read_schema(request)
    catalog = await request.app[SCHEMA_LOG].caught_up()
    return await _test(request, schema, *catalog.compatibility_basis(subject_in_path(request)))


@accepts(query=("verbose", "normalize"), body=SCHEMA_BODY, ignored=IGNORED_IN_BODY)
async def test_one(request: web.Request) -> web.Response:
    """Test whether a schema is compatible with one version, by the subject's compatibility level."""
    schema = await read_schema(request)
    catalog, subject = await request.app[SCHEMA_LOG].caught_up(), subject_in_path(request)
    versions = catalog.versions_to_test(subject, request.match_info["version"])
    return await _test(request, schema, *catalog.compatibility_basis(subject, versions))


async def _test(request: web.Request, schema: Schema, level: str, older: list[Schema]) -> web.Response:
    problems = await schema_checker(request).incompatibilities(level, schema, older)
    result: dict[str, Any] = {"is_compatible": not problems}
    if flag(request, "verbose"):
        result["messages"] = problems
    return json_response(result)


@accepts(query=("defaultToGlobal",))
async def show_compatibility(request: web.Request) -> web.Response:
    """Show the global compatibility level, or a subject's (``defaultToGlobal=true``: the effective one)."""
    catalog = await request.app[SCHEMA_LOG].caught_up()
    subject = subject_or_global(request)
    level = catalog.compatibility(subject, exact=not flag(request, "defaultToGlobal"))
    return json_response({"compatibilityLevel": level})


@accepts(body=("compatibility",), ignored=_IGNORED_IN_CONFIG)
async def set_compatibility(request: web.Request) -> web.Response:
    """Set the compatibility level: ``{"compatibility": "FULL"}``."""
    given = (await read_json(request)).get("compatibility")
    if not isinstance(given, str) or given.upper() not in COMPATIBILITY_LEVELS:
        raise api_error(
            RegistryCode.INVALID_COMPATIBILITY_LEVEL,
            f"unknown compatibility level {str(given)[:40]!r}",
            f"use one of {', '.join(COMPATIBILITY_LEVELS)}",
        )
    level, subject = given.upper(), subject_or_global(request)
    await request.app[SCHEMA_LOG].change(lambda catalog: (None, catalog.set_compatibility(subject, level)))
    return json_response({"compatibility": level})


async def reset_compatibility(request: web.Request) -> web.Response:
    """Reset a subject's level to the global one (or the global one to the default); returns the old level."""
    subject = subject_or_global(request)

    def decide(catalog: SchemaCatalog) -> tuple[str, list[Record]]:
        return catalog.compatibility(subject, exact=True), catalog.set_compatibility(subject, None)

    return json_response({"compatibilityLevel": await request.app[SCHEMA_LOG].change(decide)})


@accepts(query=("defaultToGlobal",))
async def show_mode(request: web.Request) -> web.Response:
    """Show whether schemas can be written: READWRITE, unless another registry set a stricter mode."""
    catalog = await request.app[SCHEMA_LOG].caught_up()
    mode = catalog.mode(subject_or_global(request), exact=not flag(request, "defaultToGlobal"))
    return json_response({"mode": mode})
