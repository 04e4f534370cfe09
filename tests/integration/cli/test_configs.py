from __future__ import annotations

import time

from tests.integration.cli.conftest import Run
from tests.support.clock import LIMIT


def test_settings_of_a_topic_are_shown_and_changed(run: Run, topic: str) -> None:
    run("topics", "create", topic).good()
    one = ("topic", topic)
    assert "--all" in run("configs", "describe", *one).good().err
    run(
        "configs",
        "alter",
        *one,
        "--set",
        "delete.retention.ms=1000",
        "--set",
        "cleanup.policy=[compact,delete]",
    ).good()
    rows = {
        line.split()[0]: line.split()[1:] for line in run("configs", "describe", *one).good().out.splitlines()
    }
    assert rows["cleanup.policy"] == ["compact,delete", "dynamic-topic"]
    run("configs", "alter", *one, "--unset", "delete.retention.ms,cleanup.policy", "--dry-run").good()
    assert len(run("configs", "describe", *one, "--json").good().json["settings"]) == 2
    run("configs", "alter", *one, "--unset", "delete.retention.ms,cleanup.policy").good()
    whole = run("configs", "describe", *one, "--all", "--json").good().json["settings"]
    (retention,) = [row for row in whole if row["name"] == "delete.retention.ms"]
    assert (retention["value"], retention["source"]) == ("86400000", "default")
    assert "log.dirs" in run("configs", "describe", "broker", "101", "--all").good().out


def test_setting_of_a_broker_is_not_shown_as_its_topics_own(run: Run, topic: str) -> None:
    run("topics", "create", topic).good()
    broker, setting = ("broker", "101"), "log.segment.delete.delay.ms"
    run("configs", "alter", *broker, "--set", f"{setting}=61000").good()
    try:
        deadline = time.monotonic() + 10 * LIMIT
        while "dynamic-broker" not in of_topic(run, topic, "file.delete.delay.ms"):
            assert time.monotonic() < deadline, "the topic does not have its broker's setting"
        assert "file.delete.delay.ms" not in run("configs", "describe", "topic", topic).good().out
        assert "file.delete.delay.ms" not in run("topics", "describe", topic).good().out
        assert "61000" in run("configs", "describe", *broker).good().out
    finally:
        run("configs", "alter", *broker, "--unset", setting).good()


def of_topic(run: Run, topic: str, name: str) -> str:
    """The line of one setting in force of a topic."""
    lines = run("configs", "describe", "topic", topic, "--all").good().out.splitlines()
    return next(line for line in lines if line.startswith(f"{name} "))


def test_settings_of_a_group_are_its_own(run: Run, topic: str) -> None:
    one = ("group", f"{topic}-group")
    assert "--all" in run("configs", "describe", *one).good().err
    run("configs", "alter", *one, "--set", "consumer.session.timeout.ms=46000").good()
    assert "46000" in run("configs", "describe", *one).good().out
    run("configs", "alter", *one, "--unset", "consumer.session.timeout.ms").good()


def test_options_of_kafka_configs_are_accepted(run: Run, topic: str) -> None:
    run("topics", "create", topic).good()
    entity = ("--entity-type", "topics", "--entity-name", topic)
    run("configs", "--alter", *entity, "--add-config", "retention.ms=5,segment.ms=7").good()
    out = run("configs", "--describe", *entity).good().out
    assert "segment.ms" in out
    run("configs", "--alter", "--topic", topic, "--delete-config", "segment.ms").good()
    assert "segment.ms" not in run("configs", "--describe", "--topic", topic).good().out
    run("configs", "--describe", "--entity-type", "users", "--entity-name", "ann").bad("quotas", status=2)


def test_wrong_command_line_is_refused(run: Run, topic: str) -> None:
    run("topics", "create", topic).good()
    run("configs", "describe", "topic", topic + "-nope").bad(topic + "-nope")
    run("configs", "describe").bad("which topic, broker or group?", status=2)
    run("configs", "alter", "topic", topic).bad("nothing to alter", status=2)
    run("configs", "alter", "topic", topic, "--set", "retention.mss=1").bad('Did you mean "retention.ms"?')
    run("configs", "describe", "broker", "one").bad("id", status=2)
