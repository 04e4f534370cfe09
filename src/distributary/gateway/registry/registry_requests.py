"""What the registry's routes share: reading requests and writing responses."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.gateway.error_codes import UNPROCESSABLE, RegistryCode, api_error
from distributary.gateway.gateway_access import user_of
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.schema_checker import DEADLINE, SchemaChecker
from distributary.gateway.registry.schemas_topic import SchemaLog
from distributary.gateway.registry.schemas_topic_records import (
    DEFAULT_CONTEXT,
    SchemaVersion,
    local_subject,
)
from distributary.gateway.request_fields import flag, number, read_json
from distributary.httpd.authorization import grant_of
from distributary.httpd.content_negotiation import choose

SCHEMA_LOG: web.AppKey[SchemaLog] = web.AppKey("schema-log", SchemaLog)

MEDIA_TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_UNTYPED = "application/octet-stream"
"""The type of a body whose type is not given."""
MAX_SUBJECT = 255
SCHEMA_BODY = ("schema", "schemaType", "references")
"""The fields of a body with a schema."""
IGNORED_IN_BODY = (
    "metadata",
    "ruleSet",
    "version",
    "id",
    "schemaTagsToAdd",
    "schemaTagsToRemove",
    "propagateSchemaTags",
)
"""What else Confluent's registry accepts with a schema."""
PAGE = ("offset", "limit")
"""The parameters of every list."""
DELETED_ONLY = ("deletedOnly", "deleted_only")
"""Confluent's Python client sends the second spelling, which Confluent's own registry ignores."""

T = TypeVar("T")


def schema_checker(request: web.Request) -> SchemaChecker:
    """Return a checker of schemas for the user who makes the request."""
    return SchemaChecker(request.app[DEADLINE], user_of(request))


async def read_schema(request: web.Request) -> Schema:
    """Read the schema in a body; in its canonical form with ``normalize=true``."""
    body = await read_json(request)
    schema = await schema_checker(request).parse(
        body.get("schema"), body.get("schemaType"), body.get("references")
    )
    return schema.canonical() if flag(request, "normalize") else schema


async def version_in_path(request: web.Request) -> SchemaVersion:
    """Find the version that a path names."""
    catalog = await request.app[SCHEMA_LOG].caught_up()
    return catalog.version(
        subject_in_path(request), request.match_info["version"], deleted=flag(request, "deleted")
    )


async def find_schema(log: SchemaLog, id: int) -> Schema | None:
    """Find a schema by its id; if it is unknown here, another gateway may just have registered it."""
    return log.catalog.schema(id) or (await log.caught_up()).schema(id)


async def schema_in_path(request: web.Request) -> Schema:
    """Find the schema whose id a path names; a schema of no subject that the caller may read is not found."""
    text, log = request.match_info["id"], request.app[SCHEMA_LOG]
    if text.isascii() and text.isdigit() and len(text) < 11:
        schema = await find_schema(log, int(text))
        may_read = grant_of(request).may_read_subject
        versions = log.catalog.versions_of_id(int(text), deleted=True)
        if schema is not None and any(may_read(version.subject) for version in versions):
            return schema
    raise api_error(RegistryCode.SCHEMA_NOT_FOUND, f"schema {text[:40]!r} not found")


def subject_in_path(request: web.Request) -> str:
    """Read the subject in a path."""
    subject = local_subject(request.match_info["subject"])
    if len(subject) > MAX_SUBJECT or not subject.isprintable():
        raise api_error(
            UNPROCESSABLE, "invalid subject name", f"use at most {MAX_SUBJECT} printable characters"
        )
    return subject


def subject_or_global(request: web.Request) -> str:
    """Read the subject in a path; "" if the path is about all subjects."""
    return subject_in_path(request) if "subject" in request.match_info else ""


def local_prefix(prefix: str) -> str:
    """Read a prefix of subject names, which may begin with any context or the default one."""
    for context in (":*:", DEFAULT_CONTEXT):
        if prefix.startswith(context):
            return prefix.removeprefix(context)
    return local_subject(prefix)


def deleted_only(request: web.Request) -> bool:
    """Whether only deleted entries are requested."""
    return any(flag(request, name) for name in DELETED_ONLY)


def page(request: web.Request, found: Sequence[T]) -> Sequence[T]:
    """Return the requested part of a list; without a positive limit it goes to the end."""
    offset, limit = number(request, "offset", 0), number(request, "limit", -1, low=-(2**31))
    return found[offset : offset + limit] if limit > 0 else found[offset:]


def describe_schema(schema: Schema) -> dict[str, Any]:
    """Return a schema's fields in responses; clients assume Avro where the type is missing."""
    kind = {} if schema.kind == "AVRO" else {"schemaType": schema.kind}
    return {"schema": schema.text, **kind, **schema.foreign_fields()}


def json_response(body: Any) -> web.Response:
    """Create a response with a JSON body."""
    return web.Response(body=json.dumps(body).encode(), content_type=MEDIA_TYPES[0])


def schema_response(schema: Schema) -> web.Response:
    """Create a response whose body is a schema's text."""
    return web.Response(body=schema.text.encode(), content_type=MEDIA_TYPES[0])


def negotiated(handler: Handler) -> Handler:
    """Wrap a handler: check the types of request and response, and set that of the response.

    Raises GatewayError (406, 415) before the handler is called.
    """

    @functools.wraps(handler)
    async def wrapper(request: web.Request) -> web.StreamResponse:
        accepted = choose(request.headers.get("Accept", ""), MEDIA_TYPES)
        if accepted is None:
            requested = request.headers["Accept"][:120]
            raise api_error(
                406, f"none of the types {requested!r} is offered", f"accept {', '.join(MEDIA_TYPES)}"
            )
        # Parsed by hand: Python's header parser recurses at each parenthesis.
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower() or _UNTYPED
        if request.body_exists and kind not in (*MEDIA_TYPES, _UNTYPED):
            raise api_error(
                415, f"content type {kind[:80]!r} is not supported", f"send {', '.join(MEDIA_TYPES)}"
            )
        response = await handler(request)
        response.content_type = accepted
        return response

    return wrapper
