from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gateway.error_code import error_code

from distributary.gateway.rest_proxy.consumer_instance import Wish
from distributary.gateway.rest_proxy.consumer_requests import base_uri, wish


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, Wish()),
        ({"id": "x", "format": "avro", "auto.offset.reset": "smallest"}, Wish("x", "avro", "earliest")),
        (
            {"name": "x", "auto.offset.reset": "latest", "auto.commit.enable": False},
            Wish("x", auto_commit=False),
        ),
        ({"auto.offset.reset": "largest", "auto.commit.enable": "FALSE"}, Wish(auto_commit=False)),
        ({"auto.offset.reset": "none", "consumer.request.timeout.ms": 1500}, Wish(reset="error", wait=1.5)),
        ({"consumer.request.timeout.ms": "0", "fetch.min.bytes": "1"}, Wish(wait=0.0, min_bytes=1)),
        ({"fetch.min.bytes": 10_000_000}, Wish(min_bytes=10_000_000)),
        ({"fetch.min.bytes": -1}, Wish()),
    ],
)
def test_both_versions_words_are_understood(body: dict[str, Any], expected: Wish) -> None:
    assert wish(body) == expected


@pytest.mark.parametrize("value", [-10, -2, 10_000_001, 99999999999, "x", "", True, 1.5, []])
def test_fetch_min_bytes_out_of_range_is_refused(value: Any) -> None:
    assert error_code(wish, {"fetch.min.bytes": value}) == 42204


@given(
    st.dictionaries(
        st.sampled_from(("id", "name", "format", "auto.offset.reset", "auto.commit.enable",
                         "consumer.request.timeout.ms", "fetch.min.bytes")) | st.text(),
        st.none() | st.text() | st.integers() | st.booleans() | st.lists(st.integers()),
    )
)  # fmt: skip
def test_any_settings_are_understood_or_refused(body: dict[str, Any]) -> None:
    assert error_code(wish, body) in (None, 42204)


@given(
    st.text(min_size=1),
    st.dictionaries(
        st.sampled_from(("X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix")),
        st.text() | st.sampled_from(("https", "k.example.com", "k.example.com:8443, proxy", "/rest/", "443")),
    ),
)
def test_whatever_is_said_it_is_an_address_of_the_instance(group: str, headers: dict[str, str]) -> None:
    found = base_uri(group, "i", advertised="", host="127.0.0.1:8082", scheme="http", headers=headers)
    parts = urlsplit(found)
    assert parts.scheme in ("http", "https")
    assert parts.netloc
    assert parts.path.endswith("/instances/i")
    assert "\n" not in found
    assert not parts.query
