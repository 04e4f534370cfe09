"""The registry's addresses for what new versions must get along with, and what may be written at all."""

from __future__ import annotations

from aiohttp import web

from distributary.gateway.error_codes import RegistryCode, api_error
from distributary.gateway.registry.registered_schema import MODES
from distributary.gateway.registry.registry_requests import LOG, reply, subject_or_all
from distributary.gateway.registry.schema_catalog import Book
from distributary.gateway.registry.schemas_topic_records import Record
from distributary.gateway.request_fields import accepts
from distributary.gateway.response_bodies import flag, read_json

_IDLE = (
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
"""What else Confluent's registry is told here."""


def routes() -> list[web.RouteDef]:
    """List the addresses."""
    return [
        web.get("/config", show_mode),
        web.put("/config", set_mode),
        web.delete("/config", unset_mode),
        web.get("/config/{subject}", show_mode),
        web.put("/config/{subject}", set_mode),
        web.delete("/config/{subject}", unset_mode),
        web.get("/mode", show_write_mode),
        web.get("/mode/{subject}", show_write_mode),
    ]


@accepts(query=("defaultToGlobal",))
async def show_mode(request: web.Request) -> web.Response:
    """Show the compatibility that counts for all subjects, or is set for one (``defaultToGlobal=true``)."""
    book = await request.app[LOG].caught_up()
    subject = subject_or_all(request)
    mode = book.mode(subject, exact=not flag(request, "defaultToGlobal"))
    return reply({"compatibilityLevel": mode})


@accepts(body=("compatibility",), ignored=_IDLE)
async def set_mode(request: web.Request) -> web.Response:
    """Set the compatibility: ``{"compatibility": "FULL"}``."""
    mode = (await read_json(request)).get("compatibility")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise api_error(
            RegistryCode.INVALID_COMPATIBILITY_LEVEL,
            f"{str(mode)[:40]!r} is no compatibility",
            f"it is one of {', '.join(MODES)}",
        )
    chosen, subject = mode.upper(), subject_or_all(request)
    await request.app[LOG].change(lambda book: (None, book.set_mode(subject, chosen)))
    return reply({"compatibility": chosen})


async def unset_mode(request: web.Request) -> web.Response:
    """Go back to the global compatibility (of all subjects: to the usual one); gives what counted."""
    subject = subject_or_all(request)

    def decide(book: Book) -> tuple[str, list[Record]]:
        return book.mode(subject, exact=True), book.set_mode(subject, None)

    return reply({"compatibilityLevel": await request.app[LOG].change(decide)})


@accepts(query=("defaultToGlobal",))
async def show_write_mode(request: web.Request) -> web.Response:
    """Say whether schemas can be written: READWRITE, unless another registry has set less in the topic."""
    book = await request.app[LOG].caught_up()
    mode = book.write_mode(subject_or_all(request), exact=not flag(request, "defaultToGlobal"))
    return reply({"mode": mode})
