from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.gateway.error_code import error_code

from distributary.gateway.registry.registered_schema import Schema
from distributary.gateway.rest_proxy.record_schemas import STRATEGIES, subject_for


def schema(kind: str, document: Any) -> Schema:
    return Schema(kind, json.dumps(document))


RECORD = schema("AVRO", {"type": "record", "name": "Bet", "namespace": "book", "fields": []})
TITLED = schema("JSON", {"title": "Bet", "type": "object"})


@pytest.mark.parametrize(
    ("strategy", "given", "subject"),
    [
        ("TOPIC_NAME", RECORD, "bets-value"),
        ("TOPIC_NAME", None, "bets-value"),
        ("RECORD_NAME", RECORD, "book.Bet"),
        ("TOPIC_RECORD_NAME", RECORD, "bets-book.Bet"),
        ("RECORD_NAME", TITLED, "Bet"),
        ("TOPIC_RECORD_NAME", TITLED, "bets-Bet"),
    ],
)
def test_strategy_determines_the_subject(strategy: str, given: Schema | None, subject: str) -> None:
    assert subject_for("bets", "value", given, strategy) == subject


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_record_strategy_without_a_record_name_is_rejected(strategy: str) -> None:
    assert error_code(subject_for, "bets", "key", None, strategy) == 400
    nameless: tuple[tuple[str, Any], ...] = (
        ("AVRO", "int"),
        ("AVRO", {"type": "fixed", "name": "f", "size": 1}),
        ("JSON", {}),
        ("JSON", True),
    )
    for kind, document in nameless:
        assert error_code(subject_for, "bets", "key", schema(kind, document), strategy) == 42207
