"""``GET /v1/views/{name}``: the rows that a query asks for, made for caches to keep."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import nullcontext
from dataclasses import replace
from email.utils import formatdate

from aiohttp import web

from distributary.auth.metering import charge_rows
from distributary.config.server_sections import Control
from distributary.control.app_context import CONTEXT, Context
from distributary.control.result_cache import Result, Results, tag_of
from distributary.control.row_formats import FORMATS, Format, Part
from distributary.control.rows_request import RowsRequest, read_rows_request
from distributary.control.view_routes import require_view
from distributary.errors import BadRequest, FormatNotOffered, PageGone, ViewBuilding, ViewBusy
from distributary.httpd.authorization import grant_of, grants_of, narrow_query
from distributary.httpd.content_negotiation import choose
from distributary.model.build import Build
from distributary.model.query import Query
from distributary.store.build_scan import StaleRead
from distributary.store.consistent_read import ATTEMPTS, read_unregistered
from distributary.store.errors import Fenced
from distributary.store.store_types import BuildInfo

RESULTS: web.AppKey[Results] = web.AppKey("results", Results)

NEAR, FAR = 100, 20_000
"""A change costs as much to read as a row. So a known result is brought up to date by what changed since, as
long as that is less than there are rows: always below the one number, and never above the other."""
_MANY = 200
"""Rows whose writing is left to a thread, so that other requests do not wait for it."""


async def show(request: web.Request) -> web.Response:
    """``GET /v1/views/{name}``: the rows of a view, all or those of a query, true at one position."""
    context, results = request.app[CONTEXT], request.app[RESULTS]
    asked = read_rows_request(request.match_info["name"], request.query)
    asked = replace(asked, query=narrow_query(request, asked.query))
    format = _format(request)
    await require_view(context, asked.query.view, grant_of(request))
    result = (
        await _walked(context, results, asked) if asked.tag else await fetch(context, results, asked.query)
    )
    info = await require_view(context, asked.query.view)
    build = await context.reader.build(result.build)
    part = Part(
        result,
        grants_of(request).visible_fields(asked.query.view, asked.fields),
        asked.at,
        asked.limit,
        stale=info.stale,
        incomplete=build is not None and build.incomplete,
        position=grants_of(request).visible_position(asked.query.view, result.position),
    )
    headers = _headers(request, part, format, info.now, context.config.control)
    if _unchanged(request, headers["ETag"], result):
        return web.Response(status=304, headers=headers)
    many = min(asked.limit, result.count - asked.at) > _MANY
    body = await asyncio.to_thread(format.write, part) if many else format.write(part)
    return web.Response(body=body, headers=headers | {"Content-Type": format.content_type})


async def fetch(context: Context, results: Results, query: Query) -> Result:
    """Read the rows of a query as they are now.

    What is known of it is brought up to date. Raises ViewNotFound, ViewBuilding, ViewBusy, ResultTooLarge.
    """
    async with results.lock(query):
        for _ in range(ATTEMPTS):
            now, build, found = await _live(context, query.view)
            known = results.newest(build, query) if not query.timed else None
            if known is not None and known.known == (found.epoch, found.seq):
                return known
            before = known.state if known is not None and _near(known, found) else None
            many = before is None and query.keys is None
            try:
                async with results.reading if many else nullcontext():
                    state = await read_unregistered(
                        context.reader,
                        build,
                        query,
                        before,
                        max_bytes=results.one,
                        now_ms=now,
                        index=found.indexed_fields,
                        charge=charge_rows,
                    )
            except (StaleRead, Fenced):
                continue
            if state.epoch != found.epoch:
                continue
            # By the clock after the read: the rows were surely so by then.
            now = (await require_view(context, query.view)).now
            return results.add(Result(tag_of(query, state), query, build, state, now))
    raise ViewBusy(
        f'the view "{query.view}" changes faster than its rows can be read', hint="try again in a moment"
    )


def _near(known: Result, found: BuildInfo) -> bool:
    """Say whether a result can be brought up to date; a store that went back has less than it (R2)."""
    behind = found.seq - known.known.seq
    return known.known.epoch == found.epoch and 0 <= behind <= max(NEAR, min(FAR, found.rows))


async def _live(context: Context, name: str) -> tuple[int, Build, BuildInfo]:
    """Find the store's time and the build that is served; only a live one is whole (R9)."""
    info = await require_view(context, name)
    build = Build(name, info.live)
    found = await context.reader.build(build) if info.live else None
    if found is None or found.status == "building":
        raise ViewBuilding(f'the view "{name}" is being built', hint="try again when it is live")
    if found.status != "live":
        raise ViewBuilding(f'the view "{name}" is stopped', hint="see why: distributary status")
    return info.now, build, found


async def _walked(context: Context, results: Results, asked: RowsRequest) -> Result:
    """Find the result that a page is of."""
    result = results.get(asked.tag)
    if result is None:
        await require_view(context, asked.query.view)
        raise PageGone(
            "the rest of this result is not kept any more",
            hint=f"begin again with the first page, and ask for the next within {results.keep:.0f} s",
        )
    if result.query != asked.query:
        raise BadRequest(
            "this page is of another query",
            hint="repeat view, where and keys of the first page, or follow its Link",
        )
    if asked.at >= result.count:
        raise BadRequest(f"there are only {result.count} rows", hint="give the page as it was told")
    return result


def _format(request: web.Request) -> Format:
    chosen = choose(",".join(request.headers.getall("Accept", [])), list(FORMATS))
    if chosen is None:
        raise FormatNotOffered(
            f"rows do not come as {request.headers['Accept'][:80]}", hint=f"accept {', '.join(FORMATS)}"
        )
    return FORMATS[chosen]


def _headers(request: web.Request, part: Part, format: Format, now: int, config: Control) -> dict[str, str]:
    """Say how long the reply may be kept, and by what it is known."""
    result = part.result
    fields = part.fields.text if part.fields is not None else ""
    text = f"{result.tag} {part.at} {part.limit} {format.name} {part.stale} {part.incomplete} {fields}"
    text += f" {part.position and part.position.epoch}"
    control = f"public, max-age={int(config.cache_max_age)}"
    if config.cache_stale_while_revalidate >= 1:
        control += f", stale-while-revalidate={int(config.cache_stale_while_revalidate)}"
    headers = {
        "ETag": f'"{hashlib.sha256(text.encode()).hexdigest()[:24]}"',
        "Last-Modified": formatdate(min(_modified(result), now // 1000), usegmt=True),
        "Cache-Control": control,
        "Vary": "Accept, Origin",
        "Distributary-Position": str(grants_of(request).visible_position(result.query.view, result.known)),
    }
    said = [name for name in ("stale", "incomplete") if getattr(part, name)]
    if said:
        headers["Distributary-State"] = ", ".join(said)
    if part.next:
        following = request.rel_url.update_query({"page": part.next})
        headers["Link"] = f'<?{following.raw_query_string}>; rel="next"'
    return headers


def _modified(result: Result) -> int:
    """The second from which on the rows are surely as they are.

    Whoever was told an earlier one may have been shown others, and must not hear that nothing changed.
    """
    return result.changed // 1000 + 1


def _unchanged(request: web.Request, etag: str, result: Result) -> bool:
    """Say whether the caller has this reply already (RFC 9110, 13.2.2)."""
    asked = ",".join(request.headers.getall("If-None-Match", []))
    if asked:
        tags = [tag.strip().removeprefix("W/") for tag in asked.split(",")]
        return etag in tags or "*" in tags
    since = request.if_modified_since
    return since is not None and since.timestamp() >= _modified(result)
