from __future__ import annotations

import contextlib
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import LIMIT
from tests.unit.gateway.error_code import error_code

from distributary.errors import GatewayError
from distributary.gateway.rest_proxy.consumer_instance import ConsumerOptions
from distributary.gateway.rest_proxy.consumer_requests import (
    COMMIT_FIELDS,
    OFFSET_FIELDS,
    PARTITION_FIELDS,
    PartitionOffset,
    base_uri,
    parse_offsets,
    parse_options,
    parse_topic_pattern,
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, ConsumerOptions()),
        (
            {"id": "x", "format": "avro", "auto.offset.reset": "smallest"},
            ConsumerOptions(name="x", format="avro", offset_reset="earliest"),
        ),
        (
            {"name": "x", "auto.offset.reset": "latest", "auto.commit.enable": False},
            ConsumerOptions(name="x", auto_commit=False),
        ),
        ({"auto.offset.reset": "largest", "auto.commit.enable": "FALSE"}, ConsumerOptions(auto_commit=False)),
        (
            {"auto.offset.reset": "none", "consumer.request.timeout.ms": 1500},
            ConsumerOptions(offset_reset="error", wait=1.5),
        ),
        (
            {"consumer.request.timeout.ms": "0", "fetch.min.bytes": "1"},
            ConsumerOptions(wait=0.0, min_bytes=1),
        ),
        ({"fetch.min.bytes": 10_000_000}, ConsumerOptions(min_bytes=10_000_000)),
        ({"fetch.min.bytes": -1}, ConsumerOptions()),
    ],
)
def test_settings_of_both_versions_are_parsed(body: dict[str, Any], expected: ConsumerOptions) -> None:
    assert parse_options(body) == expected


@pytest.mark.parametrize("value", [-10, -2, 10_000_001, 99999999999, "x", "", True, 1.5, []])
def test_fetch_min_bytes_out_of_range_is_rejected(value: Any) -> None:
    assert error_code(parse_options, {"fetch.min.bytes": value}) == 42204


@given(
    st.dictionaries(
        st.sampled_from(("id", "name", "format", "auto.offset.reset", "auto.commit.enable",
                         "consumer.request.timeout.ms", "fetch.min.bytes")) | st.text(),
        st.none() | st.text() | st.integers() | st.booleans() | st.lists(st.integers()),
    )
)  # fmt: skip
def test_any_settings_are_parsed_or_rejected(body: dict[str, Any]) -> None:
    assert error_code(parse_options, body) in (None, 42204)


@given(
    st.text(min_size=1),
    st.dictionaries(
        st.sampled_from(("X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix")),
        st.text() | st.sampled_from(("https", "k.example.com", "k.example.com:8443, proxy", "/rest/", "443")),
    ),
)
def test_any_forwarded_headers_give_the_address_of_the_instance(group: str, headers: dict[str, str]) -> None:
    found = base_uri(group, "i", advertised="", host="127.0.0.1:8082", scheme="http", headers=headers)
    parts = urlsplit(found)
    assert parts.scheme in ("http", "https")
    assert parts.netloc
    assert parts.path.endswith("/instances/i")
    assert "\n" not in found
    assert not parts.query


def test_offsets_are_parsed_or_rejected_with_their_code() -> None:
    one = {"topic": "t", "partition": 0, "offset": 3}
    assert parse_offsets({"offsets": [one]}, "offsets", OFFSET_FIELDS) == [PartitionOffset("t", 0, 3)]
    with_metadata = {**one, "metadata": "here"}
    assert parse_offsets({"offsets": [with_metadata, one]}, "offsets", COMMIT_FIELDS) == [
        ("t", 0, 3, "here"),
        ("t", 0, 3, ""),
    ]
    odd: list[dict[str, Any]] = [
        {},
        {"offsets": {}},
        {"offsets": [5]},
        {"offsets": [{"topic": "t", "partition": 0}]},
        {"offsets": [{**one, "offset": -1}]},
        {"offsets": [{**one, "partition": True}]},
        {"offsets": [{**one, "topic": ""}]},
        {"offsets": [{**one, "metadata": 5}]},
    ]
    assert {error_code(parse_offsets, body, "offsets", COMMIT_FIELDS) for body in odd} == {422}
    assert error_code(parse_offsets, {"offsets": [with_metadata]}, "offsets", OFFSET_FIELDS) == 400
    assert error_code(parse_offsets, {"partitions": [one]}, "partitions", PARTITION_FIELDS) == 400


@pytest.mark.parametrize(
    ("pattern", "topic", "good"),
    [
        ("odds", "odds", True),
        ("odds", "odds2", False),
        ("odds-.*", "odds-live", True),
        (r"odds-[a-z]\d", "odds-x1", True),
        ("(odds|bets)", "bets", True),
        ("od", "odds", False),
    ],
)
def test_topic_pattern_matches_whole_names(pattern: str, topic: str, good: bool) -> None:
    assert (parse_topic_pattern(pattern).fullmatch(topic) is not None) == good


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "a" * 30 + "?" * 1 + "(.*a){12}b"])
def test_topic_pattern_that_backtracks_elsewhere_is_matched_quickly(pattern: str) -> None:
    found = parse_topic_pattern(pattern)
    began = time.perf_counter()
    assert found.fullmatch("a" * 249) is None
    assert time.perf_counter() - began < 0.5 * LIMIT


@pytest.mark.parametrize("pattern", ["(a", "[", "a{2,1}", r"(a)\1", "(?=a)a", "a{1001}", "\ud800"])
def test_unsupported_topic_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(GatewayError, match="topic_pattern is not a valid regular expression") as caught:
        parse_topic_pattern(pattern)
    assert caught.value.error_code == 422


@given(st.text(st.characters()))
def test_any_text_is_compiled_or_rejected(text: str) -> None:
    with contextlib.suppress(GatewayError):
        parse_topic_pattern(text).fullmatch("odds")
