from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.servers import free_port
from tests.support.threaded_api import ThreadedApi

from distributary.control.api_client import ControlClient, find_control, view_path
from distributary.errors import AlreadyBegun, StackNotRunning, ViewNotFound


@pytest.fixture
def there(tmp_path: Path) -> Iterator[ThreadedApi]:
    threaded = ThreadedApi(tmp_path)
    yield threaded
    threaded.stop()


def test_client_raises_the_errors_of_the_api(there: ThreadedApi) -> None:
    there.api.define()
    client = ControlClient(there.url)
    with pytest.raises(ViewNotFound, match='unknown view "ods"') as caught:
        client.get(view_path("ods"))
    assert caught.value.hint == 'did you mean "odds"?'
    id = client.call("POST", "/v1/subscriptions", {"view": "odds"})["id"]
    client.call("POST", f"/v1/subscriptions/{id}/begin")
    with pytest.raises(AlreadyBegun):
        client.call("POST", f"/v1/subscriptions/{id}/begin")
    assert client.call("DELETE", f"/v1/subscriptions/{id}") is None


def test_client_reports_an_api_that_does_not_respond() -> None:
    with pytest.raises(StackNotRunning, match="cannot connect to the control API"):
        ControlClient(f"http://127.0.0.1:{free_port()}").get("/v1")


def test_control_url_of_the_environment_has_priority(tmp_path: Path) -> None:
    env = {"DISTRIBUTARY_CONTROL_URL": "http://box:8080/"}
    assert find_control(None, env) == "http://box:8080"
    file = tmp_path / "distributary.toml"
    file.write_text("")
    with pytest.raises(StackNotRunning, match="no stack is running in"):
        find_control(file, env)


def test_names_are_quoted() -> None:
    assert view_path("a/b ?") == "/v1/views/a%2Fb%20%3F"
