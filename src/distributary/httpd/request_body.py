"""The bodies of requests: JSON objects. Pure but for `read_object`."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from aiohttp import web

from distributary.config.problems import nearest
from distributary.errors import BadRequest
from distributary.model.query_params import json_type_name


async def read_object(request: web.Request, known: Collection[str] | None = None) -> dict[str, Any]:
    """Read the body as a JSON object that has no other fields than the ``known`` ones; raises BadRequest."""
    body = parse_object(await request.read())
    for name in body if known is not None else ():
        if name not in (known or ()):
            near = nearest(name, known or ())
            hint = f'did you mean "{near}"?' if near else f"the fields are {', '.join(known or ())}"
            raise BadRequest(f'unknown field "{name}"', hint=hint)
    return body


def parse_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object; raises BadRequest."""
    if not data.strip():
        raise BadRequest("the body is empty", hint="send a JSON object")
    try:
        body = json.loads(data)
    except json.JSONDecodeError as error:
        where = f"{error.msg} at line {error.lineno} column {error.colno}"
        raise BadRequest(f"the body is not valid JSON: {where}") from None
    except (ValueError, RecursionError):
        raise BadRequest(
            "cannot parse the body as JSON", hint="send UTF-8 that is not deeply nested"
        ) from None
    if not isinstance(body, dict):
        raise BadRequest(f"the body is {json_type_name(body)}", hint="send a JSON object")
    return body
