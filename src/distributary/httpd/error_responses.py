"""Errors as HTTP responses: one middleware for every server, which has its own body for them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary import errors
from distributary.errors import AccessError, BadRequest, DistributaryError, NotFound, StoreUnavailable
from distributary.httpd.authorization import challenge

log = logging.getLogger(__name__)

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
"""The status of each error of the control API and the publisher; the first that fits."""


def status_of(error: DistributaryError) -> int:
    """Return the status of an error."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def error_body(error: DistributaryError) -> dict[str, Any]:
    """Write an error as the control API and the publisher do."""
    return {"error": {"code": error.code, "message": error.message, "hint": error.hint, "retry": error.retry}}


def http_error(status: int, message: str, hint: str) -> DistributaryError:
    """Create the error for a request that aiohttp refused, or that failed for an unknown reason (500)."""
    kind = {404: NotFound, 405: NotFound, 500: DistributaryError}.get(status, BadRequest)
    return kind(message, hint=hint)


class ErrorResponses:
    """Writes the errors of one server.

    ``server`` is its name in messages, ``see`` says where its routes are described, and ``body_limit`` what
    to do about a body that is too large. ``body`` writes an error, ``status_of`` finds its status, and
    ``http_error`` creates one for a status. ``unavailable`` are the exceptions of a backend that does not
    respond, for which ``backend_error`` creates the error.
    """

    def __init__(
        self,
        server: str,
        *,
        see: str = "",
        body_limit: str = "",
        body: Callable[[DistributaryError], dict[str, Any]] = error_body,
        status_of: Callable[[DistributaryError], int] = status_of,
        http_error: Callable[[int, str, str], DistributaryError] = http_error,
        unavailable: tuple[type[Exception], ...] = (ConnectionError,),
        backend_error: Callable[[], DistributaryError] = lambda: StoreUnavailable(
            "the store does not respond", hint="retry in a moment"
        ),
    ) -> None:
        self._server = server
        self._see = see
        self._body_limit = body_limit
        self._body = body
        self._status_of = status_of
        self._http_error = http_error
        self._unavailable = unavailable
        self._backend_error = backend_error

    def response(self, error: DistributaryError, status: int | None = None, **more: Any) -> web.Response:
        """Create the response of an error; ``more`` are further fields of the body."""
        status = self._status_of(error) if status is None else status
        headers = {"Cache-Control": "no-store"}  # caches may store some statuses by default
        if status == 503 or isinstance(error, errors.TooManyRequests):
            headers["Retry-After"] = str(math.ceil(getattr(error, "after", 1.0)))
        if isinstance(error, AccessError) and status in (401, 403):
            headers["WWW-Authenticate"] = challenge(error)
        return web.json_response({**self._body(error), **more}, status=status, headers=headers)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn whatever a handler raises into a response."""
        try:
            return await handler(request)
        except DistributaryError as error:
            return self.response(error)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return self._refused_by_server(request, error)
        except self._unavailable as error:
            log.warning("%s %s: %s", request.method, request.rel_url.raw_path, error or type(error).__name__)
            return self.response(self._backend_error())
        except Exception:
            log.exception("%s %s failed", request.method, request.rel_url.raw_path)  # no line ends in it
            message = f"{request.method} {request.path} failed"
            return self.response(self._http_error(500, message, f"see the log of {self._server}"), 500)

    def _refused_by_server(self, request: web.Request, error: web.HTTPException) -> web.Response:
        """Write what aiohttp itself refused."""
        message, hint, headers = error.reason.lower(), "", {}
        if isinstance(error, web.HTTPMethodNotAllowed):
            headers["Allow"] = ", ".join(sorted(error.allowed_methods))
            message, hint = (
                f"{request.path} does not accept {request.method}",
                f"it accepts {headers['Allow']}",
            )
        elif error.status == 404:
            message, hint = f"{request.path} does not exist", self._see
        elif error.status == 413:
            message, hint = "the body is too large", self._body_limit
        response = self.response(self._http_error(error.status, message, hint), error.status)
        response.headers.update(headers)
        return response
