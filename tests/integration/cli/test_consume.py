from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.integration.cli.conftest import Run
from tests.support.clock import LIMIT
from tests.support.stack import RunningStack

from distributary.kafka import librdkafka
from distributary.kafka.admin import connect
from distributary.kafka.group_admin import check_group_free
from distributary.kafka.naming import CONVENTION


@pytest.fixture
def filled(run: Run, topic: str) -> str:
    """Ten records a second apart, five a partition."""
    run("topics", "create", topic, "--partitions", "2").good()
    lines = [
        json.dumps(
            {"key": f"k{n}", "value": {"n": n}, "partition": n % 2, "timestamp": 1767225600000 + n * 1000}
        )
        for n in range(10)
    ]
    run("produce", topic, "--json-lines", stdin="\n".join(lines)).good()
    return topic


def values(text: str) -> list[int]:
    return sorted(json.loads(line)["n"] for line in text.splitlines())


def test_reading_starts_and_ends_where_requested(run: Run, filled: str) -> None:
    end = "--until-end"
    assert values(run("consume", filled, "--from-beginning", end).good().out) == list(range(10))
    assert values(run("consume", filled, "--from", "3", end).good().out) == [6, 7, 8, 9]
    assert values(run("consume", filled, "--from", "-1", end).good().out) == [8, 9]
    assert values(run("consume", filled, "--from", "2026-01-01T00:00:07Z", end).good().out) == [7, 8, 9]
    assert values(
        run("consume", filled, "--from", "2026-01-01T00:00:07Z", "--partition", "0", end).good().out
    ) == [8]
    assert values(run("consume", filled, end).good().out) == []
    assert len(values(run("consume", filled, "--from-beginning", "--max-messages", "4").good().out)) == 4
    assert values(
        run("consume", "--topic", filled, "--from-beginning", "--timeout-ms", "500").good().out
    ) == list(range(10))
    far = run("consume", filled, "--offset", "99", "--partition", "0", end).good()
    assert "has offsets 0 to 5, not 99" in far.err


def test_records_are_printed_in_each_format(run: Run, filled: str) -> None:
    def first(*words: str) -> str:
        return (
            run("consume", filled, "--from", "0", "--partition", "1", "--max-messages", "1", *words)
            .good()
            .out
        )

    assert first("--show", "key,offset,partition,timestamp") == '1767225601000\t1\t0\tk1\t{"n":1}\n'
    assert first("--property", "print.key=true", "--property", "key.separator=|") == 'k1|{"n":1}\n'
    assert first("--format", "base64") == "eyJuIjoxfQ==\n"
    assert first("--format", "json") == '{\n  "n": 1\n}\n'


def test_group_continues_at_its_offsets(run: Run, filled: str) -> None:
    group = f"distributary.g{uuid.uuid4().hex[:8]}"
    one = run("consume", filled, "--group", group, "--max-messages", "6", "--json").good().out.splitlines()
    other = run("consume", filled, "--group", group, "--max-messages", "4", "--json").good().out.splitlines()
    records = sorted(json.loads(json.loads(line)["value"])["n"] for line in one + other)
    assert records == list(range(10)), "each record once"


def test_wrong_command_line_is_refused(run: Run, filled: str, tmp_path: Path) -> None:
    run("consume", filled + "-nope").bad(filled + "-nope")
    run("consume", filled, "--from", "yesterday").bad("not an offset or a time", "15 m", status=2)
    run("consume", filled, "--partition", "7").bad("no partition 7", "0 to 1", status=2)
    run("consume", filled, "--show", "colour").bad("colour", "timestamp", status=2)
    run("consume", filled, "--property", "x=1").bad("print.key", status=2)
    run("consume", filled, "--group", "g", "--from", "earliest").bad("groups reset", status=2)
    (tmp_path / "distributary.toml").write_text("[naming]\ngroups = 'shop\\.[a-z]+'\n")
    run("consume", filled, "--group", "Bad Group").bad("convention", "--force")
    run("consume").bad("which topic?", status=2)


def test_group_of_any_name_is_accepted_with_a_note(run: Run, filled: str) -> None:
    group = f"chat_{uuid.uuid4().hex[:8]}"
    words = ("consume", filled, "--group", group, "--max-messages", "1")
    done = run(*words).good()
    assert f"note: group '{group}' does not follow the naming convention" in done.err
    assert "naming.groups" in done.err
    assert len(done.out.splitlines()) == 1
    assert "note:" not in run(*words).good().err, "it exists by now"
    assert run("consume", filled, "--group", group + "-2", "--max-messages", "1", "--json").good().err == ""


@pytest.fixture
def member(stack: RunningStack, filled: str) -> Iterator[tuple[str, Consumer]]:
    """A live member of another application."""
    group = f"shop.g{uuid.uuid4().hex[:8]}"
    consumer = librdkafka.consumer(
        stack.config.kafka, group, client_id="shop-7", auto_offset_reset="earliest"
    )
    consumer.subscribe([filled])
    for _ in range(int(200 * LIMIT)):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            break
    assert consumer.assignment()
    yield group, consumer
    consumer.close()


def test_group_of_another_application_is_refused(
    run: Run, stack: RunningStack, filled: str, member: tuple[str, Consumer]
) -> None:
    group, _ = member
    run("consume", filled, "--group", group).bad("another application", "shop-7", "--force")
    check_group_free(connect(stack.config.kafka, 10 * LIMIT), group, "shop-8", CONVENTION)
