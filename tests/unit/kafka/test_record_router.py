"""The router of ``[[topics]]``; unit/client/test_configuration.py tests its decisions through a client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distributary.config import load
from distributary.errors import ConfigError
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_router import RecordRouter, create_router

BET = {"type": "object", "required": ["stake"], "properties": {"stake": {"type": "number"}}}
AVRO = {"type": "record", "name": "Bet", "fields": [{"name": "stake", "type": "int"}]}
FILE = """
[[topics]]
name = "bets"
schema = "schemas/bet.json"
[topics.routes]
"bets.large" = "stake >= 1000"
"bets.small" = "stake < 1"

[[topics]]
name = "avro"
schema = "bet.avsc"
framed = true
dead_letters = "failed"
"""


def router(folder: Path, text: str = FILE) -> RecordRouter:
    (folder / "schemas").mkdir(exist_ok=True)
    (folder / "schemas" / "bet.json").write_text(json.dumps(BET))
    (folder / "bet.avsc").write_text(json.dumps(AVRO))
    (folder / "distributary.toml").write_text(text)
    return create_router(load(folder / "distributary.toml", env={}))


@pytest.mark.parametrize(
    ("topic", "value", "target"),
    [
        ("bets", b'{"stake": 10}', "bets"),
        ("bets", b'{"stake": 1000}', "bets.large"),
        ("bets", b'{"stake": 0.5}', "bets.small"),
        ("bets", b'{"stake": "much"}', "bets.dead-letters"),
        ("bets", b"{", "bets.dead-letters"),
        ("bets", None, "bets"),
        ("avro", b"\x00\x00\x00\x00\x07\x02", "avro"),
        ("avro", b"\x02", "failed"),
        ("other", b"{", "other"),
    ],
)
def test_record_goes_where_its_topics_rules_say(
    tmp_path: Path, topic: str, value: bytes | None, target: str
) -> None:
    found = router(tmp_path).route(OutgoingRecord(topic, value, b"k", 1))
    assert found.topic == target
    assert bool(found.reason) == (target in ("bets.dead-letters", "failed"))
    assert found.partition == (1 if target == topic else -1)
    assert (found.key, found.value) == (b"k", value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[topics]]\nname = "t"\nschema = "none.json"\n', "topics.t.schema: "),
        ('[[topics]]\nname = "t"\nschema = "distributary.toml"\n', "is not valid JSON"),
        ('[[topics]]\nname = "t"\nroutes = { u = "stake >>" }\n', "distributary.toml:3: topics.t.routes.u: "),
        ('[[topics]]\nname = "t"\n[topics.routes]\na.b = "x = 1"\n', "a name with dots is quoted"),
        ('[[topics]]\nname = "t"\nroutes = { "no name" = "a = 1" }\n', "expected a Kafka topic"),
        ('[[topics]]\nname = "t"\nroute = {}\n', 'topics.t.route: unknown key (did you mean "routes"?)'),
        (
            '[[topics]]\nname = "t"\n[[topics]]\nname = "t"\n',
            "topics.t.name: duplicate name, first used in line 2",
        ),
    ],
)
def test_invalid_rules_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        router(tmp_path, text)
    assert message in str(caught.value)
