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
from distributary.control.row_formats import FORMATS, Format, Page
from distributary.control.rows_request import RowsRequest, read_rows_request
from distributary.control.view_routes import require_view
from distributary.errors import BadRequest, FormatNotOffered, PageGone, ViewBuilding, ViewBusy
from distributary.httpd.authorization import grant_of, grants_of, narrow_query
from distributary.httpd.content_negotiation import choose
from distributary.model.build import Build, BuildStatus
from distributary.model.query import Query
from distributary.store.build_scan import StaleRead
from distributary.store.consistent_read import ATTEMPTS, read_unregistered
from distributary.store.errors import Fenced
from distributary.store.store_types import BuildInfo

RESULTS: web.AppKey[Results] = web.AppKey("results", Results)

NEAR, FAR = 100, 20_000
"""A change costs as much to read as a row. So a cached result is updated by the changes since, if those are
fewer than the rows: always up to the first number, and never above the second."""
_THREAD_ROWS = 200
"""Responses with more rows are written by a thread, so that other requests do not wait for them."""


async def show(request: web.Request) -> web.Response:
    """``GET /v1/views/{name}``: the rows of a view, all or those of a query, true at one position."""
    context, results = request.app[CONTEXT], request.app[RESULTS]
    requested = read_rows_request(request.match_info["name"], request.query)
    requested = replace(requested, query=narrow_query(request, requested.query))
    format = _format(request)
    await require_view(context, requested.query.view, grant_of(request))
    result = (
        await _cached_page(context, results, requested)
        if requested.tag
        else await fetch(context, results, requested.query)
    )
    info = await require_view(context, requested.query.view)
    build = await context.reader.build(result.build)
    page = Page(
        result,
        grants_of(request).visible_fields(requested.query.view, requested.fields),
        requested.at,
        requested.limit,
        stale=info.stale,
        incomplete=build is not None and build.incomplete,
        position=grants_of(request).visible_position(requested.query.view, result.position),
    )
    headers = _headers(request, page, format, info.now, context.config.control)
    if _unchanged(request, headers["ETag"], result):
        return web.Response(status=304, headers=headers)
    many = min(requested.limit, result.count - requested.at) > _THREAD_ROWS
    body = await asyncio.to_thread(format.write, page) if many else format.write(page)
    return web.Response(body=body, headers=headers | {"Content-Type": format.content_type})


async def fetch(context: Context, results: Results, query: Query) -> Result:
    """Read the rows of a query as they are now; a cached result is updated.

    Raises ViewNotFound, ViewBuilding, ViewBusy, ResultTooLarge.
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
                        max_bytes=results.max_result_bytes,
                        now_ms=now,
                        index=found.indexed_fields,
                        charge=charge_rows,
                    )
            except (StaleRead, Fenced):
                continue
            if state.epoch != found.epoch:
                continue
            # The time after the read: by then the rows were these.
            now = (await require_view(context, query.view)).now
            return results.add(Result(tag_of(query, state), query, build, state, now))
    raise ViewBusy(
        f'the view "{query.view}" changes faster than its rows can be read', hint="retry in a moment"
    )


def _near(known: Result, found: BuildInfo) -> bool:
    """True if a result can be updated; a store that lost its last writes is behind it (R2)."""
    behind = found.seq - known.known.seq
    return known.known.epoch == found.epoch and 0 <= behind <= max(NEAR, min(FAR, found.rows))


async def _live(context: Context, name: str) -> tuple[int, Build, BuildInfo]:
    """Return the store's time and the build that is served; only a live one is complete (R9)."""
    info = await require_view(context, name)
    build = Build(name, info.live)
    found = await context.reader.build(build) if info.live else None
    if found is None or found.status == BuildStatus.BUILDING:
        raise ViewBuilding(f'the view "{name}" is being built', hint="retry when it is live")
    if found.status != BuildStatus.LIVE:
        raise ViewBuilding(f'the view "{name}" is stopped', hint="see why: distributary status")
    return info.now, build, found


async def _cached_page(context: Context, results: Results, requested: RowsRequest) -> Result:
    """Return the result that a page belongs to."""
    result = results.get(requested.tag)
    if result is None:
        await require_view(context, requested.query.view)
        raise PageGone(
            "the remaining pages of this result are no longer cached",
            hint=f"start again with the first page, and request the next one within {results.keep:.0f} s",
        )
    if result.query != requested.query:
        raise BadRequest(
            "this page belongs to another query",
            hint="repeat view, where and keys of the first page, or follow its Link",
        )
    if requested.at >= result.count:
        raise BadRequest(
            f"there are only {result.count} rows", hint="use the `next` token of the previous page"
        )
    return result


def _format(request: web.Request) -> Format:
    chosen = choose(",".join(request.headers.getall("Accept", [])), list(FORMATS))
    if chosen is None:
        raise FormatNotOffered(
            f"rows are not available as {request.headers['Accept'][:80]}", hint=f"accept {', '.join(FORMATS)}"
        )
    return FORMATS[chosen]


def _headers(request: web.Request, page: Page, format: Format, now: int, config: Control) -> dict[str, str]:
    """Create the headers: the validators of the response, and for how long caches may store it."""
    result = page.result
    fields = page.fields.text if page.fields is not None else ""
    text = f"{result.tag} {page.at} {page.limit} {format.name} {page.stale} {page.incomplete} {fields}"
    text += f" {page.position and page.position.epoch}"
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
    states = [name for name in ("stale", "incomplete") if getattr(page, name)]
    if states:
        headers["Distributary-State"] = ", ".join(states)
    if page.next:
        following = request.rel_url.update_query({"page": page.next})
        headers["Link"] = f'<?{following.raw_query_string}>; rel="next"'
    return headers


def _modified(result: Result) -> int:
    """Return the second from which on the rows are known to be these.

    A caller with an earlier time may have other rows, and must not be told that nothing changed.
    """
    return result.changed // 1000 + 1


def _unchanged(request: web.Request, etag: str, result: Result) -> bool:
    """True if the caller has this response already (RFC 9110, 13.2.2)."""
    known = ",".join(request.headers.getall("If-None-Match", []))
    if known:
        tags = [tag.strip().removeprefix("W/") for tag in known.split(",")]
        return etag in tags or "*" in tags
    since = request.if_modified_since
    return since is not None and since.timestamp() >= _modified(result)
