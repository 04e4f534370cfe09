from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gateway.error_code import error_code

from distributary.errors import GatewayError
from distributary.gateway.rest_proxy.media_types import FORMATS, Media, of_accept, of_body, reply_type

NODE = "application/vnd.kafka.v1+json, application/vnd.kafka+json; q=0.9, application/json; q=0.8"


@pytest.mark.parametrize(
    ("header", "media"),
    [
        ("", Media(2)),
        ("application/json", Media(2)),
        ("application/vnd.kafka.v1+json", Media(1)),
        ("application/vnd.kafka+json", Media(2)),
        ("application/vnd.kafka.avro.v1+json", Media(1, "avro")),
        ("Application/VND.kafka.json.v2+JSON; charset=utf-8", Media(2, "json")),
        ("application/vnd.kafka.jsonschema.v2+json", Media(2, "jsonschema")),
        ("application/vnd.kafka.binary+json", Media(2, "binary")),
    ],
)
def test_bodies(header: str, media: Media) -> None:
    assert of_body(header) == media


@pytest.mark.parametrize(
    "header",
    ["text/html", "application/vnd.kafka.protobuf.v2+json", "application/vnd.kafka.json.v3+json", "x"],
)
def test_bodies_of_other_types_are_refused(header: str) -> None:
    with pytest.raises(GatewayError) as caught:
        of_body(header)
    assert caught.value.number == 415


@pytest.mark.parametrize(
    ("header", "media"),
    [
        ("", Media(0)),
        ("*/*", Media(0)),
        ("application/json", Media(0)),
        (NODE, Media(1)),
        ("application/vnd.kafka.avro.v1+json", Media(1, "avro")),
        ("application/vnd.kafka.binary.v2+json;q=0.1, application/vnd.kafka.json.v2+json", Media(2, "json")),
        ("text/html, application/vnd.kafka.v2+json;q=0.5", Media(2)),
    ],
)
def test_what_is_accepted(header: str, media: Media) -> None:
    assert of_accept(header) == media


def test_nothing_acceptable_is_a_mismatch() -> None:
    with pytest.raises(GatewayError) as caught:
        of_accept("text/html")
    assert caught.value.number == 40601


def test_replies_without_records_have_the_version_that_was_asked_for() -> None:
    assert reply_type(NODE) == "application/vnd.kafka.v1+json"
    assert reply_type("*/*") == "application/json"
    assert reply_type("application/vnd.kafka.json.v2+json") == "application/vnd.kafka.v2+json"


@given(st.sampled_from(("", *FORMATS)), st.sampled_from((1, 2)))
def test_what_is_written_is_read(format: str, version: int) -> None:
    media = Media(version, format)
    assert of_body(media.text) == of_accept(media.text) == media


@given(st.text())
def test_any_header_is_read_or_refused(header: str) -> None:
    for read in (of_body, of_accept):
        assert error_code(read, header) in (None, 415, 40601)
