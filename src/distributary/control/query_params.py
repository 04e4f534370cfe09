"""What a request for rows asks for: the reading of its parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from multidict import MultiMapping

from distributary.config.problems import nearest
from distributary.errors import BadRequest
from distributary.model.field_mask import Fields, parse_fields
from distributary.model.query import Query
from distributary.publisher.hub import channel_query

LIMIT = 1_000
MAX_LIMIT = 10_000
PARAMETERS = ("where", "key", "keys", "fields", "limit", "page")

_TOKEN = re.compile(r"([0-9a-f]{24})-(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, the fields wanted (None: all), rows a page; for a further page its result and first row."""

    query: Query
    fields: Fields | None
    limit: int
    tag: str = ""
    at: int = 0


def read_asked(view: str, parameters: MultiMapping[str]) -> Asked:
    """Read the parameters of a request; raises BadRequest or BadQuery."""
    for name in parameters:
        if name not in PARAMETERS:
            near = nearest(name, PARAMETERS)
            hint = f'did you mean "{near}"?' if near else f"there are {', '.join(PARAMETERS)}"
            raise BadRequest(f'unknown parameter "{name[:80]}"', hint=hint)
    keys = parameters.getall("key", [])
    for some in parameters.getall("keys", []):
        listed = some.split(",")
        if "" in listed:
            raise BadRequest(f"keys={some[:80]!r} has an empty key", hint="write keys=a,b")
        keys = [*keys, *listed]
    query = channel_query.of(view, parameters.getall("where", []), keys).query
    assert query is not None
    fields = _one(parameters, "fields")
    limit = _limit(_one(parameters, "limit"))
    page = _one(parameters, "page")
    tag, at = _page(page) if page is not None else ("", 0)
    return Asked(query, parse_fields(fields) if fields is not None else None, limit, tag, at)


def _one(parameters: MultiMapping[str], name: str) -> str | None:
    found = parameters.getall(name, [])
    if len(found) > 1:
        raise BadRequest(f"{name} is given {len(found)} times", hint="give it once")
    return found[0] if found else None


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
            f"page={token[:80]!r} is not a page",
            hint='give the "next" of the page before, or follow its Link',
        )
    return match[1], int(match[2])
