"""Any history of some rows, as publications and as the rows after each of them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from distributary.publisher.codec.publication import Publication

Rows = dict[str, dict[str, Any]]

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
FIELDS = st.dictionaries(st.sampled_from(["n", "m"]), st.none() | st.integers(0, 3), max_size=2)


class History(NamedTuple):
    """``states[i]`` are the rows after i publications."""

    publications: list[Publication]
    states: list[Rows]


def _history(start: Rows, puts: list[tuple[str, dict[str, Any] | None, int]]) -> History:
    rows, pubs, states, seq = dict(start), list[Publication](), [dict(start)], 100
    for key, row, skipped in puts:
        old = rows.get(key)
        if old == row:
            continue
        seq += 1 + skipped  # changes of other queries have numbers too
        body: dict[str, Any] = {"op": "remove", "key": key, "time": seq}
        if row is None:
            del rows[key]
        elif old is None:
            body |= {"op": "add", "row": row}
        else:
            changed = {name: value for name, value in row.items() if old.get(name, ...) != value}
            gone = [name for name in old if name not in row]
            body |= {"op": "change", "changed": changed} | ({"gone": gone} if gone else {})
        if row is not None:
            rows[key] = row
        pubs.append((seq, json.dumps(body).encode()))
        states.append(dict(rows))
    return History(pubs, states)


def histories(most: int = 25) -> st.SearchStrategy[History]:
    """Histories that begin at number 100."""
    puts = st.tuples(KEYS, st.none() | FIELDS, st.integers(0, 2))
    few_or_many = st.lists(puts, max_size=most) | st.lists(puts, min_size=most // 2, max_size=most)
    return st.builds(_history, st.dictionaries(KEYS, FIELDS), few_or_many)


def text(rows: Rows) -> list[tuple[str, bytes]]:
    """Rows as a store has them."""
    return [(key, json.dumps(row).encode()) for key, row in rows.items()]


def value(rows: dict[str, bytes]) -> Rows:
    """Rows as values."""
    return {key: json.loads(row) for key, row in rows.items()}


class Client:
    """A subscriber that does exactly what is documented."""

    def __init__(self, rows: list[tuple[str, bytes]], position: int) -> None:
        self.rows = {key: json.loads(row) for key, row in rows}
        self.list = list(self.rows)
        self.position = position

    def take(self, pubs: list[Publication]) -> None:
        for seq, data in pubs:
            message = json.loads(data)
            key = message["key"]
            if message["op"] == "add":
                self.rows[key] = message["row"]
            elif message["op"] == "remove":
                self.rows.pop(key, None)
            else:
                row = {**self.rows[key], **message["changed"]}
                self.rows[key] = {name: v for name, v in row.items() if name not in message.get("gone", ())}
            if "at" in message or message["op"] == "remove":
                if key in self.list:
                    self.list.remove(key)
                if "at" in message:
                    assert message["at"] <= len(self.list)
                    self.list.insert(message["at"], key)
            self.position = seq
