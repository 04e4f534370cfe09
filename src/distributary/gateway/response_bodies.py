"""One shape for every error, ``{"error_code", "message"}``, and the reading of bodies and parameters."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary import errors
from distributary.errors import DistributaryError, GatewayError
from distributary.gateway.error_codes import BAD_REQUEST, RestCode, api_error, status_of
from distributary.gateway.request_fields import check_body
from distributary.httpd.authorization import challenge

log = logging.getLogger(__name__)

NUMBERS: tuple[tuple[type[DistributaryError], int], ...] = (
    (errors.TopicMissing, RestCode.TOPIC_NOT_FOUND),
    (errors.TopicError, RestCode.KAFKA_ERROR),
    (errors.KafkaUnavailable, RestCode.KAFKA_RETRIABLE_ERROR),
    (errors.KafkaRefused, 40301),
    (errors.OriginRefused, 40301),
    (errors.HostRefused, 42101),
    (errors.Forbidden, 40301),
    (errors.KeysUnavailable, 503),
    (errors.CheckFailed, 422),
    (errors.ChecksBusy, 503),
    (errors.AccessError, 40101),
    (errors.LimitExceeded, 42901),
    (errors.TooManyRequests, 42902),
    (errors.StoreUnavailable, 503),
    (errors.RequestError, BAD_REQUEST),
)
"""The numbers of errors that other stages raise."""


def number_of(error: DistributaryError) -> int:
    """Give the number that clients know an error by."""
    if isinstance(error, GatewayError):
        return error.number
    return next((number for kind, number in NUMBERS if isinstance(error, kind)), 500)


def error_reply(error: DistributaryError) -> web.Response:
    """Make the reply of an error."""
    number = number_of(error)
    status = status_of(number)
    headers = {"Cache-Control": "no-store"}
    if status == 503 or isinstance(error, errors.TooManyRequests):
        headers["Retry-After"] = str(math.ceil(getattr(error, "after", 1.0)))
    if isinstance(error, errors.AccessError) and status in (401, 403):
        headers["WWW-Authenticate"] = challenge(error)
    return web.json_response({"error_code": number, "message": str(error)}, status=status, headers=headers)


@web.middleware
async def one_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever a handler raises into the one shape."""
    try:
        return await handler(request)
    except DistributaryError as error:
        return error_reply(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return error_reply(_http(request, error))
    except (TimeoutError, ConnectionError) as error:
        log.info("%s %s: %s", request.method, request.rel_url.raw_path, error or type(error).__name__)
        return error_reply(
            api_error(503, "what answers behind the gateway does not", "try again in a moment")
        )
    except Exception:
        log.exception("%s %s failed", request.method, request.rel_url.raw_path)  # no line ends in it
        return error_reply(api_error(500, f"{request.method} {request.path} failed", "see the gateway's log"))


def _http(request: web.Request, error: web.HTTPException) -> GatewayError:
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return api_error(405, f"{request.path} does not take {request.method}", f"it takes {allowed}")
    if error.status == 404:
        return api_error(404, f"there is no {request.path}", "see docs/reference/rest.md for what there is")
    if error.status == 413:
        return api_error(413, "the body is too large", "send less at a time, or raise gateway.max_body")
    return api_error(error.status, error.reason.lower())


async def read_json(request: web.Request, *, empty: Any = None) -> Any:
    """Read the body as a JSON object with the fields that its address takes.

    One that is empty is ``empty`` where that is given.
    """
    raw = await request.read()
    if not raw.strip():
        if empty is not None:
            return empty
        raise api_error(BAD_REQUEST, "the body is empty", "send a JSON object")
    try:
        body = json.loads(raw)
    except json.JSONDecodeError as error:
        where = f"{error.msg} at line {error.lineno} column {error.colno}"
        raise api_error(BAD_REQUEST, f"the body is not JSON: {where}") from None
    except (ValueError, RecursionError):
        raise api_error(BAD_REQUEST, "the body is not usable JSON", "send UTF-8, not nested deeply") from None
    if not isinstance(body, dict):
        raise api_error(BAD_REQUEST, "the body is no JSON object")
    check_body(request, body)
    return body


def flag(request: web.Request, name: str) -> bool:
    """Read a parameter that is true or false (the usual)."""
    text = request.query.get(name, "false").lower()
    if text not in ("true", "false"):
        raise api_error(BAD_REQUEST, f"{name}={text[:40]!r} is neither true nor false")
    return text == "true"


def number(request: web.Request, name: str, usual: int, *, low: int = 0, high: int = 2**63 - 1) -> int:
    """Read a parameter that is a whole number."""
    text = request.query.get(name)
    if text is None:
        return usual
    if not (text.lstrip("-").isdigit() and text.isascii() and len(text) < 20 and low <= int(text) <= high):
        raise api_error(BAD_REQUEST, f"{name}={text[:40]!r} is no number from {low} to {high}")
    return int(text)
