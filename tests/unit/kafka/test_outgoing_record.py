from __future__ import annotations

from distributary.kafka.outgoing_record import OutgoingRecord, dead_letter_headers


def test_dead_letter_headers_name_the_reason_and_origin_and_keep_the_records_own() -> None:
    own = [("a", b"1"), ("a", b"2")]
    assert dead_letter_headers(
        "why", "t", view="v", position=(1, 7), key=b"k", timestamp=5, original=own
    ) == [
        ("distributary-reason", "why"),
        ("distributary-view", "v"),
        ("distributary-topic", "t"),
        ("distributary-partition", "1"),
        ("distributary-offset", "7"),
        ("distributary-key", b"k"),
        ("distributary-timestamp", "5"),
        *own,
    ]
    assert dead_letter_headers("why", "t") == [("distributary-reason", "why"), ("distributary-topic", "t")]


def test_outgoing_record_is_described_so_that_it_can_be_found() -> None:
    keyed = OutgoingRecord("t", b"abc", b"k")
    assert str(keyed) == "the record of 3 bytes with key 'k' for topic t"
    tombstone = OutgoingRecord("t", None, None, 4)
    assert str(tombstone) == "the record with no value without a key for topic t partition 4"
    assert len(str(OutgoingRecord("t", b"", b"\xff" * 1000))) < 120
