"""The messages a snapshot is sent in."""

from __future__ import annotations

import json

from distributary.publisher.hub.snapshot import Snapshot


def test_snapshot_is_written_whole_or_in_pages_of_about_one_size() -> None:
    rows = [(f"k{n}", b'{"n":1.50}') for n in range(10)]
    whole = Snapshot("e", 1, rows, incomplete=True)
    assert whole.data(stale=True).startswith(b'{"op":"snapshot","rows":[["k0",{"n":1.50}],')
    message = json.loads(whole.data(stale=True))
    assert (message["stale"], message["incomplete"], "more" in message) == (True, True, False)
    pages = [json.loads(page) for page in Snapshot("e", 1, rows).pages(stale=False, size=40)]
    assert [row[0] for page in pages for row in page["rows"]] == [key for key, _ in rows]
    assert [page.get("more", False) for page in pages] == [True] * (len(pages) - 1) + [False]
    assert len(pages) > 2
    assert Snapshot("e", 0, []).pages(stale=False, size=40) == [
        b'{"op":"snapshot","rows":[],"stale":false,"tier":"snapshot"}'
    ]
