"""The parameters of a request for rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from multidict import MultiMapping

from distributary.config.problems import nearest
from distributary.errors import BadRequest
from distributary.model.field_mask import FieldMask
from distributary.model.query import Query
from distributary.model.query_params import channel_query, optional_fields, single, url_keys

LIMIT = 1_000
MAX_LIMIT = 10_000
PARAMETERS = ("where", "key", "keys", "fields", "limit", "page")

_TOKEN = re.compile(r"([0-9a-f]{24})-(\d{1,9})")


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """A query, the requested fields (None: all) and rows per page.

    For a further page, ``tag`` names the result it is of and ``at`` its first row.
    """

    query: Query
    fields: FieldMask | None
    limit: int
    tag: str = ""
    at: int = 0


def read_rows_request(view: str, parameters: MultiMapping[str]) -> RowsRequest:
    """Read the parameters of a request. Raises BadRequest or BadQuery."""
    for name in parameters:
        if name not in PARAMETERS:
            near = nearest(name, PARAMETERS)
            hint = f'did you mean "{near}"?' if near else f"the parameters are {', '.join(PARAMETERS)}"
            raise BadRequest(f'unknown parameter "{name[:80]}"', hint=hint)
    for keys in parameters.getall("keys", []):
        if "" in keys.split(","):
            raise BadRequest(f"keys={keys[:80]!r} has an empty key", hint="write keys=a,b")
    query = channel_query(view, parameters.getall("where", []), url_keys(parameters)).query
    assert query is not None
    fields = single(parameters, "fields", BadRequest)
    limit = _limit(single(parameters, "limit", BadRequest))
    page = single(parameters, "page", BadRequest)
    tag, at = _page(page) if page is not None else ("", 0)
    return RowsRequest(query=query, fields=optional_fields(fields), limit=limit, tag=tag, at=at)


def _limit(text: str | None) -> int:
    if text is None:
        return LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_LIMIT):
        raise BadRequest(f"limit={text[:80]!r} is not a number of rows", hint=f"give 1 to {MAX_LIMIT}")
    return int(text)


def _page(token: str) -> tuple[str, int]:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise BadRequest(
            f"page={token[:80]!r} is not a page token",
            hint='use the "next" of the previous page, or follow its Link',
        )
    return match[1], int(match[2])
