"""One shape for every error, ``{"error_code", "message"}``, and the reading of bodies and parameters."""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web

from distributary import errors
from distributary.errors import DistributaryError, GatewayError
from distributary.gateway.error_codes import BAD_REQUEST, RestCode, api_error, status_of
from distributary.gateway.request_fields import check_body
from distributary.httpd.error_responses import ErrorResponses
from distributary.httpd.request_body import parse_object

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


def error_body(error: DistributaryError) -> dict[str, Any]:
    """Write an error as the clients of a REST proxy and of a schema registry expect it."""
    return {"error_code": number_of(error), "message": str(error)}


ERRORS = ErrorResponses(
    "the gateway",
    see="see docs/reference/rest.md for the routes",
    body_limit="send less at a time, or raise gateway.max_body",
    body=error_body,
    status_of=lambda error: status_of(number_of(error)),
    http_error=api_error,
    unavailable=(TimeoutError, ConnectionError),
    backend_error=lambda: api_error(
        503, "the backend (Kafka or the store) is not responding", "retry in a moment"
    ),
)


async def read_json(request: web.Request, *, empty: Any = None) -> Any:
    """Read the body as a JSON object with the fields that its address takes.

    One that is empty is ``empty`` where that is given.
    """
    data = await request.read()
    if empty is not None and not data.strip():
        return empty
    body = parse_object(data)
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
