from __future__ import annotations

import pytest

from distributary.errors import UsageError
from distributary.model.endpoints import environment_credentials, websocket_url


def test_token_has_priority_over_api_key() -> None:
    assert environment_credentials({}) == ("", "")
    assert environment_credentials({"DISTRIBUTARY_API_KEY": "k"}) == ("", "k")
    assert environment_credentials({"DISTRIBUTARY_TOKEN": " t\n", "DISTRIBUTARY_API_KEY": "k"}) == ("t", "")


@pytest.mark.parametrize("name", ["DISTRIBUTARY_TOKEN", "DISTRIBUTARY_API_KEY"])
@pytest.mark.parametrize("value", ["hun\nter2", "hun ter2", "huntér2", "hun\x00ter2"])
def test_invalid_credential_is_refused_without_repeating_it(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        environment_credentials({name: value})
    assert value not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("localhost:8000", "ws://localhost:8000/connection/websocket"),
        ("http://localhost:8000", "ws://localhost:8000/connection/websocket"),
        ("https://x.example/", "wss://x.example/connection/websocket"),
        ("wss://x.example/own/path", "wss://x.example/own/path"),
    ],
)
def test_url_of_a_publisher_is_completed(given: str, full: str) -> None:
    assert websocket_url(given) == full
