"""What the registry's addresses have in common: reading requests, writing replies."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.gateway_access import grant_of, user_of
from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.registry.schema_checker import DEADLINE, Checker
from distributary.gateway.registry.schemas_topic import SchemaLog
from distributary.gateway.registry.schemas_topic_records import DEFAULT, Version, local_name
from distributary.gateway.response_bodies import flag, number, read_json
from distributary.httpd.content_negotiation import choose

LOG: web.AppKey[SchemaLog] = web.AppKey("schemas", SchemaLog)

TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_GENERIC = "application/octet-stream"
"""The type of a body that does not say one."""
MAX_SUBJECT = 255
PAGE = ("offset", "limit")
"""The parameters of every list."""
DELETED_ONLY = ("deletedOnly", "deleted_only")
"""Confluent's Python client writes it the second way, which Confluent's own registry passes over."""

T = TypeVar("T")


def checker(request: web.Request) -> Checker:
    """Give what checks schemas for whoever makes a request."""
    return Checker(request.app[DEADLINE], user_of(request))


async def sent_schema(request: web.Request) -> Schema:
    """Read the schema of a body; in its normal form where that is asked for."""
    body = await read_json(request)
    schema = await checker(request).parse(body.get("schema"), body.get("schemaType"), body.get("references"))
    return schema.normal() if flag(request, "normalize") else schema


async def version_of(request: web.Request) -> Version:
    """Find the version that an address names."""
    book = await request.app[LOG].caught_up()
    return book.version(subject_of(request), request.match_info["version"], deleted=flag(request, "deleted"))


async def schema_of(log: SchemaLog, number: int) -> Schema | None:
    """Find a schema by its id; what is not known here may just have been registered elsewhere."""
    return log.book.schema(number) or (await log.caught_up()).schema(number)


async def schema_by_address(request: web.Request) -> Schema:
    """Find the schema whose id an address names; one of no subject that the caller reads is not there."""
    text, log = request.match_info["id"], request.app[LOG]
    if text.isascii() and text.isdigit() and len(text) < 11:
        found = await schema_of(log, int(text))
        reads = grant_of(request).may_read_subject
        if found is not None and any(reads(one.subject) for one in log.book.users(int(text), deleted=True)):
            return found
    raise api_error(RegistryCode.SCHEMA_NOT_FOUND, f"there is no schema with the id {text[:40]!r}")


def subject_of(request: web.Request) -> str:
    """Read the subject of an address."""
    subject = local_name(request.match_info["subject"])
    if len(subject) > MAX_SUBJECT or not subject.isprintable():
        raise api_error(
            422, "the subject is no name", f"use at most {MAX_SUBJECT} characters that can be seen"
        )
    return subject


def subject_or_all(request: web.Request) -> str:
    """Read the subject of an address; "" for one that means all subjects."""
    return subject_of(request) if "subject" in request.match_info else ""


def local_prefix(prefix: str) -> str:
    """Read the beginning of subjects' names; it may say that any context, or the default one, is meant."""
    for anywhere in (":*:", DEFAULT):
        if prefix.startswith(anywhere):
            return prefix.removeprefix(anywhere)
    return local_name(prefix)


def deleted_only(request: web.Request) -> bool:
    """Whether only what was deleted is asked for."""
    return any(flag(request, name) for name in DELETED_ONLY)


def page(request: web.Request, found: Sequence[T]) -> Sequence[T]:
    """Cut the part of a list that is asked for; without a limit above zero it goes to the end."""
    offset, limit = number(request, "offset", 0), number(request, "limit", -1, low=-(2**31))
    return found[offset : offset + limit] if limit > 0 else found[offset:]


def about(schema: Schema) -> dict[str, Any]:
    """Describe a schema; clients take one that does not say its type for Avro."""
    kind = {} if schema.kind == "AVRO" else {"schemaType": schema.kind}
    return {"schema": schema.text, **kind, **schema.others()}


def reply(body: Any) -> web.Response:
    """Make a reply."""
    return web.Response(body=json.dumps(body).encode(), content_type=TYPES[0])


def reply_text(schema: Schema) -> web.Response:
    """Make a reply that is only a schema."""
    return web.Response(body=schema.text.encode(), content_type=TYPES[0])


def negotiated(handler: Handler) -> Handler:
    """Make a handler reply with a type that is accepted, and read bodies of a type that is read.

    Raises GatewayError (406, 415) before it does anything.
    """

    @functools.wraps(handler)
    async def served(request: web.Request) -> web.StreamResponse:
        accepted = choose(request.headers.get("Accept", ""), TYPES)
        if accepted is None:
            asked = request.headers["Accept"][:120]
            raise api_error(406, f"no type of {asked!r} is offered", f"accept {', '.join(TYPES)}")
        # Read by hand: Python's parser of headers recurses for each parenthesis.
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower() or _GENERIC
        if request.body_exists and kind not in (*TYPES, _GENERIC):
            raise api_error(415, f"bodies of the type {kind[:80]!r} are not read", f"send {', '.join(TYPES)}")
        found = await handler(request)
        found.content_type = accepted
        return found

    return served
