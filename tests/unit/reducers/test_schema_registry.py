"""The client of a schema registry, against a fake server (``test_avro.py`` has the real registry)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from distributary.config import Config, Gateway
from distributary.config.sections import Schemas
from distributary.errors import BadView, SchemasUnavailable
from distributary.reducers.schema_registry import Registry, SchemaBook

BET = {"type": "record", "name": "Bet", "fields": [{"name": "id", "type": "string"}]}
TEXT = json.dumps(BET)


class Answers(ThreadingHTTPServer):
    """A registry with the responses that a test puts into ``known``; ``requests`` are the paths requested."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.known: dict[str, Any] = {}
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.missing = (404, {"error_code": 40403, "message": "not found"})

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def config(self, **words: str) -> Config:
        return Config(gateway=Gateway(port=self.port), schemas=Schemas(**words))

    def book(self) -> SchemaBook:
        return SchemaBook(Registry(self.config()), "bets", "t")


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Answers)
        server.requests.append(self.path)
        server.headers.append(dict(self.headers))
        status, body = (200, server.known[self.path]) if self.path in server.known else server.missing
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Answers]:
    server = Answers()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_schema_book_reads_each_version_once_and_finds_new_ones(server: Answers) -> None:
    server.known = {
        "/subjects/t-value/versions": [1],
        "/subjects/t-value/versions/1": {"id": 4, "schema": TEXT},
    }
    book = server.book()
    assert book.read().schemas == {4: BET}
    server.known["/subjects/t-value/versions"] = [1, 2]
    server.known["/subjects/t-value/versions/2"] = {"id": 9, "schema": TEXT}
    assert book.read().schemas == {4: BET, 9: BET}
    assert server.requests.count("/subjects/t-value/versions/1") == 1


def test_schema_book_requests_a_missing_schema_until_it_is_registered(server: Answers) -> None:
    book = server.book()
    book.request([7])
    known = book.read()
    assert known.schemas == {}
    assert known.unusable == {7: "the schema registry has no schema 7"}
    server.known["/schemas/ids/7"] = {"schema": TEXT, "schemaType": "AVRO"}
    assert book.refreshed()
    known = book.read()
    assert known.schemas == {7: BET}
    assert known.unusable == {}
    assert not book.refreshed()


def test_schema_book_checks_missing_schemas_with_one_request(server: Answers) -> None:
    book = server.book()
    book.request(range(5, 105))
    assert len(book.read().unusable) == 100
    server.requests.clear()
    assert not book.refreshed()
    book.request([5, 6])
    book.read()
    assert server.requests.count("/schemas/ids/5") == len(server.requests) - 1 == 2
    server.known["/schemas/ids/5"] = server.known["/schemas/ids/6"] = {"schema": TEXT}
    assert book.read().schemas == {5: BET, 6: BET}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"schemaType": "JSON", "schema": "{}"}, "the schema 7 is JSON, not AVRO"),
        ({"schema": '"string"'}, "the schema 7 is not a record"),
        ({"schema": '["null"]'}, "the schema 7 is not a record"),
    ],
)
def test_schema_of_another_kind_is_unusable(server: Answers, found: dict[str, str], why: str) -> None:
    server.known["/schemas/ids/7"] = found
    book = server.book()
    book.request([7])
    assert book.read().unusable == {7: why}


def test_schema_with_references_is_a_bad_view(server: Answers) -> None:
    server.known["/schemas/ids/7"] = {"schema": TEXT, "references": [{"name": "a"}]}
    book = server.book()
    book.request([7])
    with pytest.raises(BadView, match="view bets: the schema 7 has references"):
        book.read()


def test_registry_credentials_are_sent_and_never_shown(server: Answers) -> None:
    url = f"http://me:p%40ss@127.0.0.1:{server.port}/registry/"
    config = server.config(url=url, api_key="k1")
    assert Registry(config).versions("t-value") == []
    assert server.requests == ["/registry/subjects/t-value/versions"]
    assert server.headers[0]["Authorization"] == "Basic bWU6cEBzcw=="
    assert server.headers[0]["X-Api-Key"] == "k1"
    assert "p%40ss" not in repr(config)
    assert "k1" not in repr(config.schemas)
    server.missing = (401, {"error_code": 401})
    with pytest.raises(SchemasUnavailable) as refused:
        Registry(config).versions("t-value")
    assert "responds with 401" in str(refused.value)
    assert "schemas.api_key" in str(refused.value)
    assert "p%40ss" not in str(refused.value)


def test_response_that_is_not_a_registrys_is_an_error(server: Answers) -> None:
    server.missing = (404, {"message": "nothing here"})
    with pytest.raises(SchemasUnavailable, match="responds with 404"):
        server.book().read()


def test_error_names_the_registry_that_is_not_responding(server: Answers) -> None:
    config = server.config()
    config = replace(config, gateway=replace(config.gateway, host="0.0.0.0", port=1))
    with pytest.raises(
        SchemasUnavailable, match=r"registry at http://127\.0\.0\.1:1 is not responding: .*refused"
    ):
        Registry(config).versions("t-value")
