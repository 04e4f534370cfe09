from __future__ import annotations

import itertools
import json

from bench import rows
from bench.spec import Rows

from distributary.model.query import Query

SPEC = Rows(rows=2_000)


def test_every_query_is_new_and_has_rows() -> None:
    made = [rows._value(n) for n in range(SPEC.rows)]
    seen: set[str] = set()
    for format in ("", *rows.FORMATS, rows.ARROW):
        for kind in rows._filters(format).values():
            for asked in itertools.islice(kind, 7):
                query = Query.parse("v", asked.removeprefix("where="))
                assert query.id not in seen
                seen.add(query.id)
                assert sum(query.match_rows(made)) > 100


def test_a_row_is_found_by_its_match() -> None:
    (first, second) = itertools.islice(rows._matches(1), 2)
    assert (first, second) == ("where=match_id = 'm1'", "where=match_id = 'm3'")
    found = [n for n in range(SPEC.rows) if json.loads(rows._value(n))["match_id"] == "m1"]
    assert len(found) == rows.MATCH
    assert len(set(next(rows._keys(SPEC)).split(","))) == 100
