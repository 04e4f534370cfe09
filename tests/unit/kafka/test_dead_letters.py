"""The form of dead letters."""

from __future__ import annotations

from distributary.kafka.dead_letters import letter_headers


def test_a_letter_says_why_and_from_where_and_keeps_what_it_had() -> None:
    own = [("a", b"1"), ("a", b"2")]
    assert letter_headers("why", "t", view="v", place=(1, 7), key=b"k", timestamp=5, original=own) == [
        ("distributary-reason", "why"),
        ("distributary-view", "v"),
        ("distributary-topic", "t"),
        ("distributary-partition", "1"),
        ("distributary-offset", "7"),
        ("distributary-key", b"k"),
        ("distributary-timestamp", "5"),
        *own,
    ]
    assert letter_headers("why", "t") == [("distributary-reason", "why"), ("distributary-topic", "t")]
