"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from aiohttp import web

from distributary.control.context import CONTEXT, Context
from distributary.control.overview import describe_view, read_overview
from distributary.control.replies import error_reply
from distributary.errors import DistributaryError, StoreUnavailable

_CHECK_SECONDS = 5.0


async def healthz(request: web.Request) -> web.Response:
    """``GET /healthz``: this process answers."""
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """``GET /readyz``: the store and Kafka answer too."""
    checks = request.app[CONTEXT].checks
    found = await asyncio.gather(*map(_check, checks.values()))
    results = dict(zip(checks, found, strict=True))
    bad = {name: said for name, said in results.items() if said}
    if bad:
        said = "; ".join(f"{name}: {what}" for name, what in bad.items())
        return error_reply(StoreUnavailable(f"not ready: {said}", hint="see: distributary status"), 503)
    return web.json_response({"status": "ok"} | {name: "ok" for name in results})


async def _check(check: Callable[[], Awaitable[None]]) -> str:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await check()
    except TimeoutError:
        return "no answer"
    except DistributaryError as error:
        return error.message
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


async def metrics(request: web.Request) -> web.Response:
    """``GET /metrics``: Prometheus text."""
    text = "".join([f"{line}\n" async for line in _lines(request.app[CONTEXT])])
    return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


# metric, type, help, what it is in a described view
VIEW_METRICS: tuple[tuple[str, str, str, Callable[[dict[str, Any]], Any]], ...] = (
    ("view_rows", "gauge", "Rows in the live build.", lambda view: view.get("rows")),
    ("view_changes_total", "counter", "Changes written (seq).", lambda view: view.get("seq")),
    ("view_records_total", "counter", "Records folded.", lambda view: view.get("records")),
    ("view_dead_letters_total", "counter", "Records set aside.", lambda view: view.get("dead_letters")),
    ("view_lag_records", "gauge", "Records not folded yet.", lambda view: view.get("lag")),
    (
        "view_lag_seconds",
        "gauge",
        "What those take at this rate.",
        lambda view: view.get("lag_seconds"),
    ),
    ("view_rate", "gauge", "Records folded a second.", lambda view: view.get("rate")),
    ("view_subscribers", "gauge", "Subscribers now.", lambda view: view.get("subscribers")),
    ("view_live", "gauge", "1 when it is live.", lambda view: int(view.get("status") == "live")),
    ("view_stale", "gauge", "1 when its source gives nothing.", lambda view: int(view["stale"])),
    ("view_building", "gauge", "1 while a build is under way.", lambda view: int(_building(view))),
)


async def _lines(context: Context) -> Any:
    overview = await read_overview(context.reader)
    views = [describe_view(overview, name) for name in overview.views]
    for metric, kind, text, value in VIEW_METRICS:
        values = [(view["name"], value(view)) for view in views]
        for line in _metric(metric, kind, text, [({"view": n}, v) for n, v in values if v is not None]):
            yield line
    requests = [
        ({"request": what, "status": how}, count)
        for (what, how), count in context.counts.items()
        if what != "commands"
    ]
    for line in _metric("control_requests_total", "counter", "Requests answered.", requests):
        yield line
    commands = [({"result": how}, context.counts["commands", how]) for how in ("sent", "failed")]
    for line in _metric("control_commands_total", "counter", "Commands written to Kafka.", commands):
        yield line
    ages = [({"part": s.beat.part, "id": s.beat.id}, s.beat.age_ms / 1000) for s in overview.said]
    for line in _metric("part_silence_seconds", "gauge", "Since a part last reported.", ages):
        yield line


def _metric(name: str, kind: str, text: str, values: list[tuple[dict[str, str], Any]]) -> Iterator[str]:
    yield f"# HELP distributary_{name} {text}"
    yield f"# TYPE distributary_{name} {kind}"
    for labels, value in values:
        inner = ",".join(f'{label}="{_escaped(said)}"' for label, said in labels.items())
        yield f"distributary_{name}{{{inner}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _building(view: dict[str, Any]) -> bool:
    return view.get("status") == "building" or bool(view["next"])
