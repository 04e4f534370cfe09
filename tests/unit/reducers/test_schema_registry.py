"""A registry's answers, and what a view makes of them (``test_avro.py`` has the real registry)."""

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
    """A registry that says what a test puts into ``known``; ``asked`` is what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.known: dict[str, Any] = {}
        self.asked: list[str] = []
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
        server.asked.append(self.path)
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
def answers() -> Iterator[Answers]:
    server = Answers()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_schema_book_reads_each_version_once_and_finds_new_ones(answers: Answers) -> None:
    answers.known = {
        "/subjects/t-value/versions": [1],
        "/subjects/t-value/versions/1": {"id": 4, "schema": TEXT},
    }
    book = answers.book()
    assert book.read().schemas == {4: BET}
    answers.known["/subjects/t-value/versions"] = [1, 2]
    answers.known["/subjects/t-value/versions/2"] = {"id": 9, "schema": TEXT}
    assert book.read().schemas == {4: BET, 9: BET}
    assert answers.asked.count("/subjects/t-value/versions/1") == 1


def test_schema_book_requests_a_missing_schema_until_it_is_registered(answers: Answers) -> None:
    book = answers.book()
    book.request([7])
    known = book.read()
    assert known.schemas == {}
    assert known.unusable == {7: "the schema registry has no schema 7"}
    answers.known["/schemas/ids/7"] = {"schema": TEXT, "schemaType": "AVRO"}
    assert book.refreshed()
    known = book.read()
    assert known.schemas == {7: BET}
    assert known.unusable == {}
    assert not book.refreshed()


def test_schema_book_checks_missing_schemas_with_one_request(answers: Answers) -> None:
    book = answers.book()
    book.request(range(5, 105))
    assert len(book.read().unusable) == 100
    answers.asked.clear()
    assert not book.refreshed()
    book.request([5, 6])
    book.read()
    assert answers.asked.count("/schemas/ids/5") == len(answers.asked) - 1 == 2
    answers.known["/schemas/ids/5"] = answers.known["/schemas/ids/6"] = {"schema": TEXT}
    assert book.read().schemas == {5: BET, 6: BET}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"schemaType": "JSON", "schema": "{}"}, "the schema 7 is JSON, not AVRO"),
        ({"schema": '"string"'}, "the schema 7 is not a record"),
        ({"schema": '["null"]'}, "the schema 7 is not a record"),
    ],
)
def test_schema_of_another_kind_is_unusable(answers: Answers, found: dict[str, str], why: str) -> None:
    answers.known["/schemas/ids/7"] = found
    book = answers.book()
    book.request([7])
    assert book.read().unusable == {7: why}


def test_schema_with_references_is_a_bad_view(answers: Answers) -> None:
    answers.known["/schemas/ids/7"] = {"schema": TEXT, "references": [{"name": "a"}]}
    book = answers.book()
    book.request([7])
    with pytest.raises(BadView, match="view bets: the schema 7 has references"):
        book.read()


def test_registry_credentials_are_sent_and_never_shown(answers: Answers) -> None:
    url = f"http://me:p%40ss@127.0.0.1:{answers.port}/registry/"
    config = answers.config(url=url, api_key="k1")
    assert Registry(config).versions("t-value") == []
    assert answers.asked == ["/registry/subjects/t-value/versions"]
    assert answers.headers[0]["Authorization"] == "Basic bWU6cEBzcw=="
    assert answers.headers[0]["X-Api-Key"] == "k1"
    assert "p%40ss" not in repr(config)
    assert "k1" not in repr(config.schemas)
    answers.missing = (401, {"error_code": 401})
    with pytest.raises(SchemasUnavailable) as refused:
        Registry(config).versions("t-value")
    assert "responds with 401" in str(refused.value)
    assert "schemas.api_key" in str(refused.value)
    assert "p%40ss" not in str(refused.value)


def test_response_that_is_not_a_registrys_is_an_error(answers: Answers) -> None:
    answers.missing = (404, {"message": "nothing here"})
    with pytest.raises(SchemasUnavailable, match="responds with 404"):
        answers.book().read()


def test_error_names_the_registry_that_is_not_responding(answers: Answers) -> None:
    config = answers.config()
    config = replace(config, gateway=replace(config.gateway, host="0.0.0.0", port=1))
    with pytest.raises(
        SchemasUnavailable, match=r"registry at http://127\.0\.0\.1:1 is not responding: .*refused"
    ):
        Registry(config).versions("t-value")
