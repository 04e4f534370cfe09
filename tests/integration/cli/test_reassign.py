"""Moves on one broker, where no replica can move; tests/integration/secured has two brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Run
from tests.support.stack import RunningStack

from distributary.errors import KafkaRefused
from distributary.kafka import reassignment
from distributary.kafka.admin import connect


def test_moves_are_shown_started_and_listed(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "create", topic, "--partitions", "2").good()
    shown = run("reassign", topic, "--brokers", "101").good()
    assert "nothing has to move" in shown.err
    rows = {"version": 1, "partitions": [{"topic": topic, "partition": 1, "replicas": [101]}]}
    (tmp_path / "plan.json").write_text(json.dumps(rows))
    run("reassign", "--reassignment-json-file", "plan.json", "--execute").good()
    assert run("reassign", "--list", "--json").good().json == []
    assert run("reassign", topic, "--cancel", "--json").good().json == {"cancelled": 0}


def test_broker_refuses_an_impossible_move(stack: RunningStack, run: Run, topic: str) -> None:
    run("topics", "create", topic).good()
    cluster = connect(stack.config.kafka, 10)
    reassignment.alter(cluster, {topic: {0: [101]}})
    with pytest.raises(KafkaRefused, match=f"{topic}, partition 0"):
        reassignment.alter(cluster, {topic: {0: [999]}})
    with pytest.raises(KafkaRefused, match=f"{topic}, partition 0"):
        reassignment.alter(cluster, {topic: {0: None}})
    assert reassignment.active_moves(cluster) == []


def test_wrong_command_line_is_refused(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "create", topic).good()
    run("reassign", topic).bad("which topics, to which brokers?", status=2)
    run("reassign", topic, "--brokers", "101,102").bad("no such broker: 102", "101", status=2)
    run("reassign", topic, "--brokers", "101", "--replication-factor", "2").bad("2 replicas", status=2)
    run("reassign", topic, "--brokers", "a").bad("ids", status=2)
    run("reassign", topic + "-nope", "--brokers", "101").bad(topic + "-nope")
    (tmp_path / "plan.json").write_text("[]")
    run("reassign", "--reassignment-json-file", "plan.json").bad("plan.json", status=2)
