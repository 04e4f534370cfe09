"""One shape for every error, and the reading of request bodies."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Collection
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from redis.exceptions import RedisError

from distributary import errors
from distributary.config.problems import nearest
from distributary.control.app_context import CONTEXT
from distributary.errors import BadRequest, DistributaryError, NotFound, StoreUnavailable
from distributary.model.query_params import json_type_name

log = logging.getLogger(__name__)

MAX_BODY = 1024 * 1024

STATUSES: tuple[tuple[type[DistributaryError], int], ...] = (
    (errors.ViewNotFound, 404),
    (errors.SubscriptionNotFound, 404),
    (errors.NotFound, 404),
    (errors.AlreadyBegun, 409),
    (errors.OriginRefused, 403),
    (errors.HostRefused, 421),
    (errors.Forbidden, 403),
    (errors.KeysUnavailable, 503),
    (errors.AccessError, 401),
    (errors.FormatNotOffered, 406),
    (errors.PageGone, 410),
    (errors.ResultTooLarge, 413),
    (errors.ViewBuilding, 503),
    (errors.ViewBusy, 503),
    (errors.LimitExceeded, 429),
    (errors.TooManyRequests, 429),
    (errors.StoreUnavailable, 503),
    (errors.NotReady, 503),
    (errors.KafkaUnavailable, 503),
    (errors.RequestError, 400),
    (errors.BadQuery, 400),
    (errors.ConfigError, 400),
)


def error_reply(error: DistributaryError, status: int | None = None, **more: Any) -> web.Response:
    """Make the reply of an error: ``{"error": {"code", "message", "hint", "retry"}}``, ``more`` beside it."""
    if status is None:
        status = next((number for kind, number in STATUSES if isinstance(error, kind)), 500)
    body = {"code": error.code, "message": error.message, "hint": error.hint, "retry": error.retry}
    headers = {"Cache-Control": "no-store"}  # some statuses are kept by caches unless they are told
    if status == 503 or isinstance(error, errors.TooManyRequests):
        headers["Retry-After"] = str(math.ceil(getattr(error, "after", 1.0)))
    return web.json_response({"error": body, **more}, status=status, headers=headers)


@web.middleware
async def one_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever a handler raises into the one shape, and count the replies."""
    reply = await _answer(request, handler)
    route = request.match_info.route.resource
    where = route.canonical if route is not None else "none"
    request.app[CONTEXT].counts[f"{request.method} {where}", str(reply.status)] += 1
    return reply


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except DistributaryError as error:
        return error_reply(error)
    except web.HTTPException as error:
        return _http(request, error)
    except (RedisError, ConnectionError) as error:
        log.warning("the store does not answer: %s", error)
        return error_reply(StoreUnavailable("the store does not answer", hint="try again in a moment"))
    except Exception:
        log.exception("%s %s failed", request.method, request.rel_url.raw_path)  # no line ends in it
        return error_reply(
            DistributaryError(f"{request.method} {request.path} failed", hint="see the control API's log"),
            500,
        )


def _http(request: web.Request, error: web.HTTPException) -> web.Response:
    """Say in our shape what the HTTP server itself refused."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        reply = error_reply(
            NotFound(f"{request.path} does not take {request.method}", hint=f"it takes {allowed}"), 405
        )
        reply.headers["Allow"] = allowed
        return reply
    if error.status == 404:
        return error_reply(NotFound(f"there is no {request.path}", hint="see GET /v1 for what there is"))
    if error.status == 413:
        return error_reply(BadRequest("the body is too large", hint=f"at most {MAX_BODY} bytes"), 413)
    return error_reply(BadRequest(error.reason.lower()), error.status)


async def read_object(request: web.Request, known: Collection[str] | None = None) -> dict[str, Any]:
    """Read the body as a JSON object with no other fields than the known ones; raises BadRequest."""
    raw = await request.read()
    if not raw.strip():
        raise BadRequest("the body is empty", hint="send a JSON object")
    try:
        body = json.loads(raw)
    except json.JSONDecodeError as error:
        raise BadRequest(
            f"the body is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    except (ValueError, RecursionError):
        raise BadRequest("the body is not usable JSON", hint="send UTF-8, not nested deeply") from None
    if not isinstance(body, dict):
        raise BadRequest(f"the body is {json_type_name(body)}", hint="send a JSON object")
    for name in body if known is not None else ():
        if name not in (known or ()):
            near = nearest(name, known or ())
            hint = f'did you mean "{near}"?' if near else f"the fields are {', '.join(known or ())}"
            raise BadRequest(f'unknown field "{name}"', hint=hint)
    return body
