from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.servers import free_port
from tests.unit.setup.osv_server import OsvServer, serving

from distributary.errors import AdvisoriesUnavailable
from distributary.setup.osv import TRIES, Osv

ONE, TWO, CLEAN = "pkg:pypi/one@1", "pkg:maven/g/two@2", "pkg:pypi/clean@3"
KNOWN = {ONE: [f"GHSA-{n}" for n in range(5)], TWO: ["CVE-2"]}


def no_wait(seconds: float) -> None: ...


def test_all_pages_of_all_batches_are_read() -> None:
    many = [f"pkg:pypi/p{n}@1" for n in range(20)]
    with serving(OsvServer(KNOWN)) as server:
        found = Osv(server.url, batch=7).advisories([ONE, *many, TWO, CLEAN])
    assert found[ONE] == sorted(KNOWN[ONE])
    assert (found[TWO], found[CLEAN]) == (["CVE-2"], [])
    assert len(found) == 23
    assert max(server.batches) == 7
    assert set(server.requested) == {ONE, TWO, CLEAN, *many}


def test_service_that_recovers_is_retried() -> None:
    waits: list[float] = []
    with serving(OsvServer(KNOWN)) as server:
        server.statuses = [503, 429]
        assert Osv(server.url, sleep=waits.append).advisories([TWO]) == {TWO: ["CVE-2"]}
    assert waits == [1.0, 2.0]


@pytest.mark.parametrize(("status", "tries"), [(500, TRIES), (404, 1), (400, 1)])
def test_http_error_is_not_an_empty_result(status: int, tries: int) -> None:
    with serving(OsvServer(KNOWN)) as server:
        server.statuses = [status] * 10
        with pytest.raises(AdvisoriesUnavailable, match=f"HTTP {status}, so no advisory was looked up"):
            Osv(server.url, sleep=no_wait).advisories([CLEAN])
    assert len(server.batches) == tries


def test_unreachable_service_is_an_error_with_a_hint() -> None:
    with pytest.raises(AdvisoriesUnavailable, match="is not responding") as caught:
        Osv(f"http://user:hunter2@127.0.0.1:{free_port()}", sleep=no_wait).advisories([CLEAN])
    assert "--osv" in caught.value.hint
    assert "hunter2" not in str(caught.value)


SPOILED: list[Callable[[Any], Any]] = [
    lambda reply: {"results": []},
    lambda reply: {"results": [*reply["results"], {}]},
    lambda reply: {},
    lambda reply: [],
    lambda reply: {"results": "none"},
    lambda reply: {"results": [None]},
    lambda reply: {"results": [{"vulns": "none"}]},
    lambda reply: {"results": [{"vulns": [{}]}]},
    lambda reply: {"results": [{"vulns": ["GHSA-1"]}]},
    lambda reply: {"results": [{"next_page_token": 7}]},
    lambda reply: {"results": [{"next_page_token": "for ever"}]},
    lambda reply: b"<html>a login page</html>",
    lambda reply: b"[" * 100_000,
    lambda reply: b"",
]


@pytest.mark.parametrize("spoil", SPOILED)
def test_invalid_response_is_not_an_empty_result(spoil: Callable[[Any], Any]) -> None:
    with serving(OsvServer({})) as server:
        server.spoil = spoil
        with pytest.raises(AdvisoriesUnavailable, match="so the audit is not complete"):
            Osv(server.url).advisories([CLEAN])


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://h", "nonsense", "http://"])
def test_invalid_address_of_service_is_refused(url: str) -> None:
    with pytest.raises(AdvisoriesUnavailable, match="not an address"):
        Osv(url)
