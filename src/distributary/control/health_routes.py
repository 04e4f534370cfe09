"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from aiohttp import web

from distributary.control import control_metrics
from distributary.control.app_context import CONTEXT, ERRORS
from distributary.errors import NotReady
from distributary.httpd.authorization import AUTHORIZATION
from distributary.httpd.prometheus_text import metrics_response


async def healthz(request: web.Request) -> web.Response:
    """``GET /healthz``: this process answers."""
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """``GET /readyz``: nothing is wrong that keeps views from being served; else 503 with the alarms."""
    seen = await request.app[CONTEXT].monitor.now()
    # Anybody may ask: where that is not everybody's business, only the names of alarms are told.
    named = request.app[AUTHORIZATION].authenticator.on
    alarms = [{"name": alarm.name} if named else alarm.as_json() for alarm in seen.alarms]
    bad = [alarm for alarm in seen.alarms if alarm.severity == "error"]
    if not bad:
        return web.json_response({"status": "ok", "alarms": alarms})
    said = "; ".join(alarm.name if named else alarm.text for alarm in bad)
    return ERRORS.response(NotReady(f"not ready: {said}", hint="see: distributary status"), alarms=alarms)


async def metrics(request: web.Request) -> web.Response:
    """``GET /metrics``: Prometheus text."""
    return metrics_response(await control_metrics.families(request.app[CONTEXT]))
