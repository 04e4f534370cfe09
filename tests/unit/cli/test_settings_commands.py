from __future__ import annotations

import pytest

from distributary.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("config", ["usage: distributary config", "examples:"]),
        ("up", ["usage: distributary up"]),
        ("setup", ["usage:"]),
        ("kafka", ["kafka.port = 9092", "kafka.memory"]),
        ("views", ["views.<name>.ttl = not set"]),
        ("kafka.port", ["DISTRIBUTARY_KAFKA_PORT", "1 to 65535", "9092"]),
        ("views.ttl", ["DISTRIBUTARY_VIEWS_<NAME>_TTL", 'ttl = "1h"']),
        ("kafka.bootstrap_servers", ["also written  bootstrap.servers"]),
        ("DISTRIBUTARY_SPARK_ENGINE", ["spark.engine", "auto, realtime, microbatch"]),
    ],
)
def test_topics(capsys: Captured, topic: str, words: list[str]) -> None:
    assert main(["help", topic]) == 0
    out = capsys.readouterr().out
    for word in words:
        assert word in out


def test_a_section_has_only_its_own(capsys: Captured) -> None:
    assert main(["help", "control"]) == 0
    assert "kafka." not in capsys.readouterr().out


def test_no_topic_is_the_program(capsys: Captured) -> None:
    assert main(["help"]) == 0
    assert "commands:" in capsys.readouterr().out


def test_unknown_topic(capsys: Captured) -> None:
    assert main(["help", "kafka.prot"]) == 2
    assert 'Did you mean "kafka.port"?' in capsys.readouterr().err
