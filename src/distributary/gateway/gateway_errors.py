"""Errors as clients of REST proxies and schema registries expect them: ``{"error_code", "message"}``."""

from __future__ import annotations

from typing import Any

from distributary import errors
from distributary.errors import DistributaryError, GatewayError
from distributary.gateway.error_codes import BAD_REQUEST, RestCode, api_error, status_of
from distributary.httpd.error_responses import ErrorResponses

CODES: tuple[tuple[type[DistributaryError], int], ...] = (
    (errors.TopicMissing, RestCode.TOPIC_NOT_FOUND),
    (errors.TopicError, RestCode.KAFKA_ERROR),
    (errors.KafkaUnavailable, RestCode.KAFKA_RETRIABLE_ERROR),
    (errors.KafkaRefused, RestCode.FORBIDDEN),
    (errors.OriginRefused, RestCode.FORBIDDEN),
    (errors.HostRefused, 42101),
    (errors.Forbidden, RestCode.FORBIDDEN),
    (errors.KeysUnavailable, 503),
    (errors.CheckFailed, 422),
    (errors.ChecksBusy, 503),
    (errors.AccessError, 40101),
    (errors.LimitExceeded, 42901),
    (errors.TooManyRequests, 42902),
    (errors.StoreUnavailable, 503),
    (errors.RequestError, BAD_REQUEST),
)
"""The codes of errors that other packages raise; the first match counts."""


def code_of(error: DistributaryError) -> int:
    """Return the code that clients know an error by."""
    if isinstance(error, GatewayError):
        return error.error_code
    return int(next((code for kind, code in CODES if isinstance(error, kind)), 500))


def error_body(error: DistributaryError) -> dict[str, Any]:
    """Return the body of an error response."""
    return {"error_code": code_of(error), "message": str(error)}


ERRORS = ErrorResponses(
    "the gateway",
    see="see docs/reference/rest.md for the routes",
    body_limit="send less at a time, or raise gateway.max_body",
    body=error_body,
    status_of=lambda error: status_of(code_of(error)),
    http_error=api_error,
    unavailable=(TimeoutError, ConnectionError),
    backend_error=lambda: api_error(
        503, "the backend (Kafka or the store) is not responding", "retry in a moment"
    ),
)
