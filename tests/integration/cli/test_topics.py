from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.cli.conftest import Run

from distributary.kafka.naming import CONVENTION

BROKER = 101


def test_topic_is_created_described_changed_and_deleted(run: Run, topic: str) -> None:
    run("topics", "create", topic, "--partitions", "3", "--set", "retention.ms=3600000").good()
    row = next(line for line in run("topics", "list").good().out.splitlines() if line.startswith(topic))
    assert row.split() == [topic, "3", "1"]
    text = run("topics", "describe", topic).good().out
    assert "PartitionCount: 3  ReplicationFactor: 1  Configs: retention.ms=3600000" in text
    assert "PARTITION  LEADER  REPLICAS  ISR" in text
    assert text.splitlines()[-1].split() == ["2", str(BROKER), str(BROKER), str(BROKER), "0", "0"]
    run("topics", "alter", topic, "--partitions", "5", "--unset", "retention.ms").good()
    (described,) = run("topics", "describe", topic, "--json").good().json
    assert (described["settings"], len(described["partitions"])) == ({}, 5)
    assert described["partitions"][4] == {
        "partition": 4,
        "leader": BROKER,
        "replicas": [BROKER],
        "isr": [BROKER],
        "first": 0,
        "end": 0,
    }
    assert run("topics", "delete", topic, "--json").good().json == {"deleted": [topic]}
    run("topics", "describe", topic).bad(topic, "distributary topics list")


def test_options_of_kafka_topics_are_accepted(run: Run, topic: str) -> None:
    one = ("--topic", topic)
    run(
        "topics",
        "--create",
        *one,
        "--partitions",
        "2",
        "--replication-factor",
        "1",
        "--config",
        "retention.ms=1",
    ).good()
    run("topics", "--create", *one, "--if-not-exists").good()
    assert "PartitionCount: 2" in run("topics", "--describe", *one).good().out
    run("topics", "--alter", *one, "--partitions", "3").good()
    assert run("topics", "--describe", *one, "--under-replicated-partitions").good().out.strip() == ""
    assert topic in run("topics", "--list").good().out
    run("topics", "--delete", *one).good()
    run("topics", "--delete", *one, "--if-exists").good()


def test_refused_command_says_what_to_do(run: Run, topic: str) -> None:
    run("topics", "create", topic).good()
    run("topics", "create", topic).bad(topic, "--if-not-exists")
    run("topics", "create", topic.replace(".", "_"), "--force").bad("differs only by . and _")
    run("topics", "create", topic + "-x", "--replication-factor", "3").bad("replication factor of 3")
    run("topics", "create", topic + "-x", "--set", "retention.mss=1").bad('Did you mean "retention.ms"?')
    run("topics", "create", topic + "-x", "--set", "retention.ms=soon").bad("retention.ms", "soon")
    run("topics", "create", topic + "-x", "--set", "retention").bad("NAME=VALUE", status=2)
    run("topics", "create", topic + "-x", "--partitions", "0").bad("at least one", status=2)
    run("topics", "create").bad("which topic?", status=2)
    run("topics", "alter", topic).bad("nothing to alter", status=2)
    run("topics", "alter", topic, "--partitions", "1").bad("has 1 partitions", "not removed")
    run("topics", "alter", topic, "--set", "cleanup.polic=compact").bad('Did you mean "cleanup.policy"?')
    run("topics", "delete", topic + "-nope").bad(f"{topic}-nope")
    run("topics", "list", "--bootstrap-server", "localhost", "--timeout", "0.2").bad("host:9092", status=2)
    run("topics", "list", "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.2").bad("127.0.0.1:1")
    assert (
        '"kafka-unavailable"'
        in run("topics", "list", "--json", "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.2").err
    )


@pytest.mark.parametrize("name", ["chat", "events", "purchases", "test", "random_walk", "foo"])
def test_names_of_first_examples_are_accepted_with_a_note(run: Run, name: str) -> None:
    try:
        done = run("topics", "create", name).good()
        assert (done.out, done.err.count("note:")) == ("", 1)
        assert f"topic '{name}' does not follow the naming convention" in done.err
        assert "naming.topics" in done.err
        assert f"topic {name}: created" in done.err
    finally:
        run("topics", "delete", name).good()


def test_note_on_names_can_be_silenced(run: Run, topic: str, tmp_path: Path) -> None:
    name = topic.removeprefix("test.")
    done = run("topics", "create", name, "--dry-run", "--json").good()
    assert (done.json["created"], done.err) == ([name], "")
    assert "note:" in run("topics", "create", name, name + "-2", "--dry-run").good().err
    assert "note:" not in run("topics", "create", name, "--dry-run", "--force").good().err
    (tmp_path / "distributary.toml").write_text('[naming]\ntopics = ".*"\n')
    assert "note:" not in run("topics", "create", name, "--dry-run").good().err


def test_names_must_follow_the_configured_convention(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "create", "two words").bad("249")
    run("topics", "create", "two words", "--force").bad("249")
    (tmp_path / "distributary.toml").write_text(f"[naming]\ntopics = '{CONVENTION}'\n")
    bad = "Sports_Book." + topic.removeprefix("test.")
    run("topics", "create", bad).bad("does not follow the convention", "sports-book.", "--force")
    run("topics", "create", bad, "--force").good()
    run("topics", "delete", bad).good()
    (tmp_path / "distributary.toml").write_text("[naming]\ntopics = 'shop\\.[a-z]+'\n")
    run("topics", "create", topic).bad("shop")
    (tmp_path / "distributary.toml").write_text("[naming]\ntopics = '('\n")
    run("topics", "create", topic).bad("naming.topics", "regular expression", status=2)


def test_dry_run_changes_nothing(run: Run, topic: str) -> None:
    run("topics", "create", topic, "--dry-run").good()
    run("topics", "describe", topic).bad(topic)
    run("topics", "create", topic, "--dry-run", "--set", "retention.mss=1").bad("retention.ms")
