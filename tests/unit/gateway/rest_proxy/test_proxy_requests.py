from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gateway.error_code import error_code

from distributary.errors import GatewayError
from distributary.gateway.rest_proxy.proxy_requests import (
    MediaType,
    parse_accept,
    parse_content_type,
    response_type,
)
from distributary.gateway.rest_proxy.serialization import FORMATS

NODE = "application/vnd.kafka.v1+json, application/vnd.kafka+json; q=0.9, application/json; q=0.8"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", MediaType(2)),
        ("application/json", MediaType(2)),
        ("application/vnd.kafka.v1+json", MediaType(1)),
        ("application/vnd.kafka+json", MediaType(2)),
        ("application/vnd.kafka.avro.v1+json", MediaType(1, "avro")),
        ("Application/VND.kafka.json.v2+JSON; charset=utf-8", MediaType(2, "json")),
        ("application/vnd.kafka.jsonschema.v2+json", MediaType(2, "jsonschema")),
        ("application/vnd.kafka.binary+json", MediaType(2, "binary")),
    ],
)
def test_content_type_is_parsed(header: str, expected: MediaType) -> None:
    assert parse_content_type(header) == expected


@pytest.mark.parametrize(
    "header",
    ["text/html", "application/vnd.kafka.protobuf.v2+json", "application/vnd.kafka.json.v3+json", "x"],
)
def test_unsupported_content_type_is_rejected(header: str) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_content_type(header)
    assert caught.value.error_code == 415


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", MediaType(0)),
        ("*/*", MediaType(0)),
        ("application/json", MediaType(0)),
        (NODE, MediaType(1)),
        ("application/vnd.kafka.avro.v1+json", MediaType(1, "avro")),
        (
            "application/vnd.kafka.binary.v2+json;q=0.1, application/vnd.kafka.json.v2+json",
            MediaType(2, "json"),
        ),
        ("text/html, application/vnd.kafka.v2+json;q=0.5", MediaType(2)),
    ],
)
def test_preferred_supported_type_is_chosen(header: str, expected: MediaType) -> None:
    assert parse_accept(header) == expected


def test_unsupported_accept_header_is_a_format_mismatch() -> None:
    with pytest.raises(GatewayError) as caught:
        parse_accept("text/html")
    assert caught.value.error_code == 40601


def test_response_without_records_has_the_accepted_version() -> None:
    assert response_type(NODE) == "application/vnd.kafka.v1+json"
    assert response_type("*/*") == "application/json"
    assert response_type("application/vnd.kafka.json.v2+json") == "application/vnd.kafka.v2+json"


@given(st.sampled_from(("", *FORMATS)), st.sampled_from((1, 2)))
def test_text_of_a_media_type_is_parsed_back(format: str, version: int) -> None:
    media = MediaType(version, format)
    assert parse_content_type(media.text) == parse_accept(media.text) == media


@given(st.text())
def test_any_header_is_parsed_or_rejected(header: str) -> None:
    for read in (parse_content_type, parse_accept):
        assert error_code(read, header) in (None, 415, 40601)
