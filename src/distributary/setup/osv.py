"""Looks up the advisories of packages in a service that speaks the protocol of osv.dev.

See https://google.github.io/osv.dev/post-v1-querybatch/.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from distributary.config.secrets import mask_text
from distributary.errors import AdvisoriesUnavailable

URL = "https://api.osv.dev"
BATCH = 1000
"""Most queries that the service takes in one request."""
LIMIT = 30.0
"""Seconds that a request may take."""
MAX_BYTES = 64 << 20
TRIES = 3
MAX_PAGES = 1000


class Osv:
    """A client of one service; every call raises AdvisoriesUnavailable unless all was looked up."""

    def __init__(
        self,
        url: str = URL,
        *,
        batch: int = BATCH,
        limit: float = LIMIT,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._shown = mask_text(url)
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise AdvisoriesUnavailable(
                f"{self._shown} is not an address of a service", hint=f"Give one such as {URL}"
            )
        self._url = f"{url.rstrip('/')}/v1/querybatch"
        self._batch = batch
        self._limit = limit
        self._sleep = sleep

    def advisories(self, purls: Sequence[str]) -> dict[str, list[str]]:
        """Give the ids of the advisories of each package, sorted; [] for one that has none."""
        found: dict[str, set[str]] = {purl: set() for purl in purls}
        todo: list[tuple[str, str]] = [(purl, "") for purl in found]
        requested: set[tuple[str, str]] = set()
        while todo:
            now, todo = todo[: self._batch], todo[self._batch :]
            for (purl, _), result in zip(now, self._ask(now), strict=True):
                ids, more = self._read(result)
                found[purl] |= ids
                if more:
                    if (purl, more) in requested or len(requested) >= MAX_PAGES * len(found):
                        raise self._invalid("gives the same page again")
                    requested.add((purl, more))
                    todo.append((purl, more))
        return {purl: sorted(ids) for purl, ids in found.items()}

    def _ask(self, queries: Sequence[tuple[str, str]]) -> list[Any]:
        body = {"queries": [_query(purl, page) for purl, page in queries]}
        reply = self._post(json.dumps(body).encode())
        try:
            results = json.loads(reply)["results"]
        except (ValueError, RecursionError, KeyError, TypeError):
            raise self._invalid("did not send an OSV response") from None
        if not isinstance(results, list) or len(results) != len(queries):
            raise self._invalid("did not respond to every query")
        return results

    def _read(self, result: Any) -> tuple[set[str], str]:
        if not isinstance(result, dict):
            raise self._invalid("did not send an OSV response")
        vulns, more = result.get("vulns") or [], result.get("next_page_token") or ""
        if not isinstance(vulns, list) or not isinstance(more, str):
            raise self._invalid("did not send an OSV response")
        ids = {one.get("id") if isinstance(one, dict) else None for one in vulns}
        if not all(isinstance(id, str) and id for id in ids):
            raise self._invalid("names an advisory without an id")
        return {str(id) for id in ids}, more

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "User-Agent": "distributary-audit"}
        request = urllib.request.Request(self._url, body, headers)
        for left in reversed(range(TRIES)):
            try:
                with urllib.request.urlopen(request, timeout=self._limit) as reply:
                    text: bytes = reply.read(MAX_BYTES + 1)
                if len(text) > MAX_BYTES:
                    raise self._invalid(f"sent more than {MAX_BYTES} bytes")
                return text
            except urllib.error.HTTPError as error:
                error.close()
                why = f"responded with HTTP {error.code}"
                if error.code < 500 and error.code != 429:
                    break
            except (OSError, HTTPException) as error:  # a URLError is an OSError
                why = f"is not responding: {getattr(error, 'reason', None) or error or type(error).__name__}"
            if left:
                self._sleep(2.0 ** (TRIES - left - 1))
        raise AdvisoriesUnavailable(
            f"{self._shown} {mask_text(why)}, so no advisory was looked up",
            hint="Run it where the service can be reached, or name a mirror: --osv URL",
        )

    def _invalid(self, what: str) -> AdvisoriesUnavailable:
        return AdvisoriesUnavailable(
            f"the service at {self._shown} {what}, so the audit is not complete",
            hint="Is it an OSV service? See https://osv.dev",
        )


def _query(purl: str, page: str) -> dict[str, Any]:
    query: dict[str, Any] = {"package": {"purl": purl}}
    return query | ({"page_token": page} if page else {})
