"""The registry's addresses: ``/subjects``, ``/schemas``, ``/compatibility``, ``/config``, ``/mode``."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from distributary.gateway import refuse as numbers
from distributary.gateway.refuse import refuse
from distributary.gateway.replies import flag, read_json
from distributary.gateway.schemas.book import Book, Record, Version
from distributary.gateway.schemas.log import SchemaLog
from distributary.gateway.schemas.schema import KINDS, MODES, Schema, parse

LOG: web.AppKey[SchemaLog] = web.AppKey("schemas", SchemaLog)

_TYPE = "application/vnd.schemaregistry.v1+json"
MAX_SUBJECT = 255


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
        web.get("/schemas/types", list_types),
        web.get("/schemas/ids/{id}", show_schema),
        web.get("/schemas/ids/{id}/schema", show_schema_text),
        web.get("/schemas/ids/{id}/subjects", list_users),
        web.get("/schemas/ids/{id}/versions", list_uses),
        web.post("/compatibility/subjects/{subject}/versions", test_all),
        web.post("/compatibility/subjects/{subject}/versions/{version}", test_one),
        web.get("/config", show_mode),
        web.put("/config", set_mode),
        web.delete("/config", unset_mode),
        web.get("/config/{subject}", show_mode),
        web.put("/config/{subject}", set_mode),
        web.delete("/config/{subject}", unset_mode),
        web.get("/mode", show_write_mode),
        web.get("/mode/{subject}", show_write_mode),
    ]


async def list_subjects(request: web.Request) -> web.Response:
    """Name all subjects. Parameters: ``deleted``, ``subjectPrefix``."""
    book = await request.app[LOG].caught_up()
    prefix = request.query.get("subjectPrefix", "")
    found = book.subjects(deleted=flag(request, "deleted"))
    return _reply([name for name in found if name.startswith(prefix)])


async def register(request: web.Request) -> web.Response:
    """Register a schema as the subject's next version, unless it has it; gives ``id``."""
    subject, schema = _subject(request), await _sent(request)
    return _reply({"id": await request.app[LOG].change(lambda book: book.register(subject, schema))})


async def look_up(request: web.Request) -> web.Response:
    """Find the version under which the subject has a schema."""
    schema = await _sent(request)
    book = await request.app[LOG].caught_up()
    return _reply(_shown(book.lookup(_subject(request), schema, deleted=flag(request, "deleted"))))


async def list_versions(request: web.Request) -> web.Response:
    """List the numbers of the subject's versions."""
    book = await request.app[LOG].caught_up()
    found = book.versions(_subject(request), deleted=flag(request, "deleted"))
    return _reply([one.number for one in found])


async def show_version(request: web.Request) -> web.Response:
    """Show a version: its number, ``latest`` or ``-1``."""
    return _reply(_shown(await _version(request)))


async def show_version_schema(request: web.Request) -> web.Response:
    """Show only the schema of a version."""
    return web.Response(text=(await _version(request)).schema.text, content_type=_TYPE)


async def referenced_by(request: web.Request) -> web.Response:
    """List the schemas that refer to a version: none, since schemas cannot refer to others here."""
    await _version(request)
    return _reply([])


async def delete_subject(request: web.Request) -> web.Response:
    """Hide all versions of the subject or, with ``permanent=true`` after that, delete them for good."""
    subject, permanent = _subject(request), flag(request, "permanent")

    def decide(book: Book) -> tuple[list[int], list[Record]]:
        found = book.versions(subject, deleted=True)
        live = [one for one in found if not one.deleted]
        if permanent and live:
            raise refuse(
                numbers.SUBJECT_NOT_DELETED,
                f"the subject {subject!r} was not deleted before",
                "delete it without permanent=true first",
            )
        if not permanent and not live:
            raise refuse(
                numbers.SUBJECT_DELETED,
                f"the subject {subject!r} is deleted already",
                "permanent=true deletes it for good",
            )
        gone = found if permanent else live
        return [one.number for one in gone], book.delete(gone, permanent=permanent)

    return _reply(await request.app[LOG].change(decide))


async def delete_version(request: web.Request) -> web.Response:
    """Hide one version or, with ``permanent=true`` after that, delete it for good."""
    subject, number = _subject(request), request.match_info["version"]
    permanent = flag(request, "permanent")

    def decide(book: Book) -> tuple[int, list[Record]]:
        latest = number in ("latest", "-1")
        found = book.version(subject, number, deleted=permanent or not latest)
        if permanent and not found.deleted:
            raise refuse(
                numbers.VERSION_NOT_DELETED,
                f"version {found.number} of {subject!r} was not deleted before",
                "delete it without permanent=true first",
            )
        if not permanent and found.deleted:
            raise refuse(
                numbers.VERSION_DELETED,
                f"version {found.number} of {subject!r} is deleted already",
                "permanent=true deletes it for good",
            )
        return found.number, book.delete([found], permanent=permanent)

    return _reply(await request.app[LOG].change(decide))


async def list_types(request: web.Request) -> web.Response:
    """Name the kinds of schema that can be registered."""
    return _reply(list(KINDS))


async def show_schema(request: web.Request) -> web.Response:
    """Show the schema of an id."""
    return _reply(_about(await _by_id(request)))


async def show_schema_text(request: web.Request) -> web.Response:
    """Show only the schema's own text."""
    return web.Response(text=(await _by_id(request)).text, content_type=_TYPE)


async def list_users(request: web.Request) -> web.Response:
    """Name the subjects that have the schema of an id."""
    await _by_id(request)
    found = request.app[LOG].book.users(int(request.match_info["id"]), deleted=flag(request, "deleted"))
    return _reply(sorted({one.subject for one in found}))


async def list_uses(request: web.Request) -> web.Response:
    """List subjects and versions that have the schema of an id."""
    await _by_id(request)
    found = request.app[LOG].book.users(int(request.match_info["id"]), deleted=flag(request, "deleted"))
    return _reply([{"subject": one.subject, "version": one.number} for one in found])


async def test_all(request: web.Request) -> web.Response:
    """Say whether a schema may become the subject's next version; ``verbose=true`` says why not."""
    schema = await _sent(request)
    book = await request.app[LOG].caught_up()
    return _judged(request, book.problems(_subject(request), schema))


async def test_one(request: web.Request) -> web.Response:
    """Say whether a schema gets along with one version, by the subject's compatibility."""
    schema = await _sent(request)
    found = await _version(request)
    return _judged(request, request.app[LOG].book.problems(found.subject, schema, [found]))


async def show_mode(request: web.Request) -> web.Response:
    """Show the compatibility that counts for all subjects, or is set for one (``defaultToGlobal=true``)."""
    book = await request.app[LOG].caught_up()
    subject = request.match_info.get("subject", "")
    mode = book.mode(subject, exact=not flag(request, "defaultToGlobal"))
    return _reply({"compatibilityLevel": mode})


async def set_mode(request: web.Request) -> web.Response:
    """Set the compatibility: ``{"compatibility": "FULL"}``."""
    mode = (await read_json(request)).get("compatibility")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise refuse(
            numbers.BAD_MODE, f"{str(mode)[:40]!r} is no compatibility", f"it is one of {', '.join(MODES)}"
        )
    chosen, subject = mode.upper(), request.match_info.get("subject", "")
    await request.app[LOG].change(lambda book: (None, book.set_mode(subject, chosen)))
    return _reply({"compatibility": chosen})


async def unset_mode(request: web.Request) -> web.Response:
    """Go back to the global compatibility (of all subjects: to the usual one); gives what counted."""
    subject = request.match_info.get("subject", "")

    def decide(book: Book) -> tuple[str, list[Record]]:
        return book.mode(subject, exact=True), book.set_mode(subject, None)

    return _reply({"compatibilityLevel": await request.app[LOG].change(decide)})


async def show_write_mode(request: web.Request) -> web.Response:
    """Say that schemas can be read and written: the registry has no other mode."""
    return _reply({"mode": "READWRITE"})


async def _sent(request: web.Request) -> Schema:
    body = await read_json(request)
    return parse(body.get("schema"), body.get("schemaType"), body.get("references"))


async def _version(request: web.Request) -> Version:
    book = await request.app[LOG].caught_up()
    return book.version(_subject(request), request.match_info["version"], deleted=flag(request, "deleted"))


async def _by_id(request: web.Request) -> Schema:
    text = request.match_info["id"]
    if text.isascii() and text.isdigit() and len(text) < 11:
        found = await schema_of(request.app[LOG], int(text))
        if found is not None:
            return found
    raise refuse(numbers.SCHEMA, f"there is no schema with the id {text[:40]!r}")


async def schema_of(log: SchemaLog, number: int) -> Schema | None:
    """Find a schema by its id; what is not known here may just have been registered elsewhere."""
    return log.book.schema(number) or (await log.caught_up()).schema(number)


def _subject(request: web.Request) -> str:
    subject = request.match_info["subject"]
    if len(subject) > MAX_SUBJECT or not subject.isprintable():
        raise refuse(422, "the subject is no name", f"use at most {MAX_SUBJECT} characters that can be seen")
    return subject


def _about(schema: Schema) -> dict[str, Any]:
    # Clients take a schema that does not say its type for Avro.
    return {"schema": schema.text} | ({} if schema.kind == "AVRO" else {"schemaType": schema.kind})


def _shown(one: Version) -> dict[str, Any]:
    return {"subject": one.subject, "version": one.number, "id": one.id, **_about(one.schema)}


def _judged(request: web.Request, problems: list[str]) -> web.Response:
    said: dict[str, Any] = {"is_compatible": not problems}
    if flag(request, "verbose"):
        said["messages"] = problems
    return _reply(said)


def _reply(body: Any) -> web.Response:
    return web.json_response(body, content_type=_TYPE)
