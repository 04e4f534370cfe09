from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.integration.cli.conftest import Run
from tests.support.clock import LIMIT
from tests.support.stack import RunningStack

from distributary.kafka import librdkafka


@pytest.fixture
def group(stack: RunningStack, run: Run, topic: str) -> str:
    """A group that has read 3 of 5 records in each of 2 partitions, a second apart."""
    name = f"shop.g{uuid.uuid4().hex[:8]}"
    run("topics", "create", topic, "--partitions", "2").good()
    lines = [
        json.dumps({"value": n, "partition": n % 2, "timestamp": 1767225600000 + n * 1000}) for n in range(10)
    ]
    run("produce", topic, "--json-lines", stdin="\n".join(lines)).good()
    consumer = librdkafka.consumer(stack.config.kafka, name)
    consumer.commit(offsets=[TopicPartition(topic, n, 3) for n in (0, 1)], asynchronous=False)
    consumer.close()
    return name


@pytest.fixture
def live(stack: RunningStack, group: str, topic: str) -> Iterator[str]:
    """The same with a member in it."""
    consumer = librdkafka.consumer(stack.config.kafka, group, client_id="shop-billing-1")
    consumer.subscribe([topic])
    for _ in range(int(200 * LIMIT)):
        if consumer.poll(0.1) is not None:
            break
    yield group
    consumer.close()


def offsets(run: Run, group: str) -> dict[int, int]:
    (described,) = run("groups", "describe", group, "--json").good().json
    return {one["partition"]: one["offset"] for one in described["offsets"]}


def test_groups_are_listed_and_described(run: Run, group: str, topic: str) -> None:
    assert [group, "empty"] in [line.split() for line in run("groups", "list").good().out.splitlines()]
    assert group in run("groups", "list", "--state", "Empty").good().out
    assert group not in run("groups", "list", "--state", "stable").good().out
    text = run("groups", "describe", group).good().out.splitlines()
    assert text[0] == f"group {group}: empty, 0 members, lag 4"
    assert text[2].split() == [topic, "0", "3", "5", "2", "-", "-"]
    (described,) = run("groups", "--describe", "--group", group, "--json").good().json
    assert (described["lag"], described["offsets"][1]["lag"]) == (4, 2)


RESETS: list[tuple[tuple[str, ...], list[int]]] = [
    (("--to-earliest",), [0, 0]),
    (("--to-latest",), [5, 5]),
    (("--to-offset", "4"), [4, 4]),
    (("--to-offset", "99"), [5, 5]),
    (("--to-datetime", "2026-01-01T00:00:05Z"), [3, 2]),
    (("--to-datetime", "2030-01-01"), [5, 5]),
    (("--by-duration", "1 h"), [5, 5]),
    (("--by-duration", "PT1H"), [5, 5]),
    (("--shift-by", "-2"), [1, 1]),
    (("--shift-by", "-20"), [0, 0]),
    (("--to-current",), [3, 3]),
]


def test_reset_without_execute_changes_nothing(run: Run, group: str, topic: str) -> None:
    for to, expected in RESETS:
        shown = run("groups", "reset", group, "--topic", topic, *to, "--json").good().json
        assert [one["after"] for one in shown["moves"]] == expected, to
        assert not shown["executed"]
    assert offsets(run, group) == {0: 3, 1: 3}, "nothing was changed"
    done = run("groups", "reset", group, "--topic", f"{topic}:1", "--to-earliest")
    assert done.good().out.splitlines()[1].split() == [topic, "1", "3", "0", "-3"]
    assert "--execute" in done.err
    far = run("groups", "reset", group, "--topic", f"{topic}:1", "--to-offset", "99").good()
    assert f"{topic}, partition 1: there is no offset 99, 5 is the nearest" in far.err


def test_reset_with_execute_sets_the_offsets(run: Run, group: str, topic: str) -> None:
    run("groups", "reset", group, "--topic", f"{topic}:1", "--to-offset", "1", "--execute").good()
    assert offsets(run, group) == {0: 3, 1: 1}
    run("groups", "--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute").good()
    assert offsets(run, group) == {0: 5, 1: 5}
    new = group + "-new"
    run("groups", "reset", new, "--topic", topic, "--to-earliest", "--execute").good()
    assert offsets(run, new) == {0: 0, 1: 0}


def test_group_with_live_members_is_not_changed(run: Run, live: str, topic: str) -> None:
    words: Any = ("groups", "reset", live, "--topic", topic, "--to-earliest")
    for more in ((), ("--execute",)):
        run(*words, *more).bad("live members", "shop-billing-1", "--members")
    run("groups", "delete", live).bad("live members", "shop-billing-1")
    text = run("groups", "describe", live, "--members").good().out
    assert f"{topic}:0,1" in text
    assert "shop-billing-1" in text
    assert "stable" in run("groups", "describe", live, "--state").good().out


def test_deleted_group_is_gone(run: Run, group: str) -> None:
    run("groups", "delete", group).good()
    run("groups", "describe", group).bad(group, "groups list")
    run("groups", "delete", group).bad(group)


def test_wrong_command_line_is_refused(run: Run, group: str, topic: str) -> None:
    reset = ("groups", "reset", group)
    run(*reset, "--to-earliest").bad("which topics?", status=2)
    run(*reset, "--topic", topic).bad("required", status=2)
    run(*reset, "--topic", topic + "-nope", "--to-earliest").bad(topic + "-nope")
    run(*reset, "--topic", f"{topic}:7", "--to-earliest").bad("no partition 7", "0 to 1")
    run(*reset, "--topic", f"{topic}:x", "--to-earliest").bad("numbers", status=2)
    run(*reset, "--topic", topic, "--to-datetime", "soon").bad("soon", status=2)
    run("groups", "reset", group + "-new", "--topic", topic, "--shift-by", "1").bad(
        "has not committed", status=2
    )
    run("groups", "reset", group + "-new", "--all-topics", "--to-latest").bad("no group", "groups list")
    run("groups", "describe").bad("which group?", status=2)
