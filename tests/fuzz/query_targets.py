"""Targets: queries, positions, parameters and headers."""

from __future__ import annotations

import contextlib
import json
from random import Random

from multidict import CIMultiDict, MultiDict

from distributary.config.server_sections import Publisher
from distributary.control.rows_request import read_rows_request
from distributary.errors import DistributaryError
from distributary.gateway.rest_proxy.proxy_requests import parse_accept, parse_content_type, response_type
from distributary.gateway.topic_stream.stream_cursor import (
    format_cursor,
    parse_cursor,
    parse_stream_request,
)
from distributary.httpd.content_negotiation import choose
from distributary.httpd.cors import OriginPolicy, origin_allowed
from distributary.model.field_mask import parse_field_mask
from distributary.model.order import order_of
from distributary.model.position import Mark, Position, read_start
from distributary.model.query import Query
from distributary.publisher.http.stream_sink import stream_format
from tests.fuzz.engine import Target, without_resources
from tests.fuzz.mutations import any_text

FILTERS = (
    "price > 1.5 and sport = 'football'",
    "a.b.c in (1, 'x', null, true) or not (x between 1 and 2)",
    "name like 'a%_\\%' escape '\\' and `odd name`.`x` is not null",
    "at > now() - interval '5' minute and at < '2026-01-31T08:00:00Z'",
    "((((a = 1))))",
    "lower(name) = 'x'",
)
WORDS = (
    *(
        "and",
        "or",
        "not",
        "in",
        "between",
        "like",
        "escape",
        "is",
        "null",
        "true",
        "now()",
        "interval",
        "'",
        "`",
        "(",
        ")",
    ),
    *(
        "=",
        "<>",
        "!=",
        "<=",
        ">",
        ",",
        ".",
        "-",
        "+",
        "1e9",
        "0x1",
        "1.5",
        "'x'",
        "a",
        "b.c",
        "\\",
        "%",
        "_",
        "\u20ac",
        "\0",
    ),
)
NAMES = ("where", "key", "keys", "fields", "limit", "page", "from", "x")
ROWS = (
    b'{"price": 2, "sport": "football", "a": {"b": {"c": 1}}}',
    b"{}",
    b'{"name": "abc", "at": "2026-01-31"}',
)


def _filter(data: bytes) -> bool:
    try:
        query = Query.parse("odds", data.decode("utf-8", "surrogateescape"))
    except DistributaryError:
        return False
    query.match_rows(ROWS, 1_800_000_000_000)
    assert Query.load("odds", query.text).text == query.text, "its normal form is not stable"
    return True


def _words(random: Random) -> bytes:
    return " ".join(random.choice(WORDS) for _ in range(random.randrange(1, 40))).encode()


def _order(data: bytes) -> bool:
    text, _, limit = data.decode("utf-8", "surrogateescape").partition("\n")
    try:
        order = order_of(text, limit or None)
    except DistributaryError:
        return False
    if order is not None:
        sorted(ROWS, key=lambda row: order.rank("k", row))
    return True


def _fields(data: bytes) -> bool:
    try:
        fields = parse_field_mask(data.decode("utf-8", "surrogateescape"))
    except DistributaryError:
        return False
    for row in ROWS:
        json.loads(fields.project(row))
    return True


def _position(data: bytes) -> bool:
    text = data.decode("utf-8", "surrogateescape")
    accepted = False
    for read in (Position.parse, Mark.parse):
        try:
            read(text)
            accepted = True
        except ValueError:
            pass
    for read_one in (read_start, parse_cursor):
        try:
            read_one(text)
            accepted = True
        except (DistributaryError, ValueError):
            pass
    return accepted


def _parameters(data: bytes) -> bool:
    pairs = [part.partition("=") for part in data.decode("utf-8", "surrogateescape").split("&")]
    query = MultiDict((name, value) for name, _, value in pairs)
    accepted = False
    for read in (
        lambda: read_rows_request("odds", query),
        lambda: parse_stream_request(query, query.get("id", "")),
    ):
        try:
            read()
            accepted = True
        except DistributaryError:
            pass
    return accepted


def _headers(data: bytes) -> bool:
    lines = [line.partition(":") for line in data.decode("latin-1").split("\n")]
    headers = CIMultiDict((name.strip(), value.strip()) for name, _, value in lines if name.strip())
    accept = headers.get("Accept", "")
    choose(accept, ("application/json", "text/csv"))
    stream_format(accept)
    for read in (parse_accept, parse_content_type, response_type):
        with contextlib.suppress(DistributaryError):
            read(accept)
    origin_allowed(
        headers.get("Origin"), headers.get("Host", ""), ("https://*.example.com", "https://a.b:8443")
    )
    try:
        for server in _PAGES:
            server.check(headers)
    except DistributaryError:
        return False
    return True


_PAGES = (
    OriginPolicy("publisher", Publisher(origins=("https://*.example.com",), hosts=("live.example.com",))),
    OriginPolicy("publisher", Publisher(host="0.0.0.0")),
)

TARGETS = (
    Target(
        "filter",
        without_resources(_filter),
        [text.encode() for text in FILTERS[:5]],
        (
            *tuple(
                f"model.filter.{name}"
                for name in ("parse", "lexer", "times", "like", "compile", "scalars", "row_view")
            ),
            "model.query",
        ),
        _words,
    ),
    Target(
        "order", without_resources(_order), [b"price desc, score.home\n10", b"`a b` asc\n1"], ("model.order",)
    ),
    Target(
        "fields",
        without_resources(_fields),
        [b"price,match.name", b"`a.b`,c", b"a.b.c,a.d"],
        ("model.field_mask",),
    ),
    Target(
        "position",
        without_resources(_position),
        [
            b"epoch:17",
            b"2026-01-31T08:00:00Z",
            b"1800000000000",
            b"3:1",
            format_cursor({0: 5, 1: 7}, "x" * 22).encode(),
        ],
        ("model.position", "model.filter.times", "gateway.topic_stream.stream_cursor"),
    ),
    Target(
        "parameters",
        without_resources(_parameters),
        [
            b"where=a=1&limit=5&fields=a,b",
            b"key=a&key=b",
            b"keys=a,b&page=0123456789abcdef01234567-5",
            b"offset=3&partition=0",
        ],
        ("control.rows_request", "gateway.topic_stream.stream_cursor"),
        lambda random: "&".join(
            f"{random.choice(NAMES)}={any_text(random)}" for _ in range(random.randrange(1, 5))
        ).encode("utf-8", "replace"),
    ),
    Target(
        "headers",
        without_resources(_headers),
        [
            b"Host: 127.0.0.1:8000\nOrigin: https://app.example.com\nAccept: application/json;q=0.5",
            b"Host: 127.0.0.1:8000\nAccept: application/json",
            b"Host: live.example.com\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nAccept: */*",
            b"Host: [::1]:8000\nOrigin: null\nAccept: application/vnd.kafka.json.v2+json",
        ],
        (
            "httpd.cors",
            "httpd.content_negotiation",
            "gateway.rest_proxy.proxy_requests",
            "publisher.http.stream_sink",
        ),
        lambda random: "\n".join(
            f"{random.choice(('Host', 'Origin', 'Accept', 'Sec-Fetch-Site'))}: {any_text(random)}"
            for _ in range(3)
        ).encode("latin-1", "replace"),
    ),
)
