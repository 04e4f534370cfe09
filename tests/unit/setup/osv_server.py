"""A server that speaks OSV's documented format: POST /v1/querybatch, with paging."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_QUERIES = 1000


class OsvServer:
    """Knows advisories by purl; gives ``page`` of them at a time. ``spoil`` may change a reply."""

    def __init__(self, known: Mapping[str, Sequence[str]], page: int = 2) -> None:
        self.known = known
        self.page = page
        self.batches: list[int] = []
        self.requested: list[str] = []
        self.statuses: list[int] = []
        self.spoil: Callable[[dict[str, Any]], Any] = lambda reply: reply
        self.url = ""

    def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        queries = body["queries"]
        self.batches.append(len(queries))
        if self.statuses:
            return self.statuses.pop(0), {"code": 13, "message": "not now"}
        if len(queries) > MAX_QUERIES:
            return 400, {"code": 3, "message": "too many queries"}
        return 200, self.spoil({"results": [self.result(one) for one in queries]})

    def result(self, query: dict[str, Any]) -> dict[str, Any]:
        purl = query["package"]["purl"]
        self.requested.append(purl)
        at = int(query.get("page_token", "0") if self.known else 0)
        ids = self.known.get(purl, ())
        if not ids:
            return {}
        vulns = [{"id": id, "modified": "2026-01-01T00:00:00Z"} for id in ids[at : at + self.page]]
        more = {"next_page_token": str(at + self.page)} if at + self.page < len(ids) else {}
        return {"vulns": vulns} | more


@contextmanager
def serving(server: OsvServer) -> Iterator[OsvServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(size))
            found = self.path == "/v1/querybatch" and self.headers["Content-Type"] == "application/json"
            status, reply = server.answer(body) if found else (404, {})
            text = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: object) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
