from __future__ import annotations

import json
from pathlib import Path

from tests.integration.cli.conftest import Run

ALL = ("--from-beginning", "--until-end")


def test_lines_with_keys_and_tombstones_are_written(run: Run, topic: str) -> None:
    run("topics", "create", topic).good()
    run("produce", topic, stdin="one\ntwö\n\n").good()
    run("produce", topic, "--keys", "--null", "NULL", stdin="k1:a:b\nk2:NULL\n").good()
    run("produce", topic, "--key", "k3", "--header", "trace=7", stdin="x").good()
    run(
        "produce",
        "--topic",
        topic,
        "--property",
        "parse.key=true",
        "--property",
        "key.separator=,",
        stdin="k4,y\n",
    ).good()
    consumed = [json.loads(line) for line in run("consume", topic, *ALL, "--json").good().out.splitlines()]
    assert [(one["key"], one["value"]) for one in consumed] == [
        (None, "one"),
        (None, "twö"),
        (None, ""),
        ("k1", "a:b"),
        ("k2", None),
        ("k3", "x"),
        ("k4", "y"),
    ]
    assert consumed[5]["headers"] == [["trace", "7"]]


def test_produce_reads_what_consume_prints(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "create", topic, "--partitions", "2").good()
    records = [
        {
            "key": "a",
            "value": "text",
            "partition": 1,
            "timestamp": 1767225600000,
            "headers": [["h", "1"], ["h", None]],
        },
        {"key": {"base64": "/w=="}, "value": {"base64": "AP8="}, "partition": 0},
        {"key": None, "value": None, "partition": 1},
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, records)))
    done = run("produce", topic, "--json-lines", "-f", "in.jsonl", "--json").good().json
    assert done == {"topic": topic, "written": 3, "partitions": {"0": 1, "1": 2}}
    (tmp_path / "out.jsonl").write_text(run("consume", topic, *ALL, "--json").good().out)
    other = topic + "-copy"
    run("topics", "create", other, "--partitions", "2").good()
    run("produce", other, "--json-lines", "-f", "out.jsonl").good()

    def content(name: str) -> list[dict[str, object]]:
        found = [json.loads(line) for line in run("consume", name, *ALL, "--json").good().out.splitlines()]
        return sorted(
            ({**one, "topic": ""} for one in found), key=lambda one: (one["partition"], one["offset"])
        )

    assert content(topic) == content(other)


def test_whole_file_is_one_record(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "create", topic).good()
    (tmp_path / "a.bin").write_bytes(b"one\ntwo\n\xff")
    run("produce", topic, "--whole", "-f", "a.bin").good()
    assert run("consume", topic, *ALL, "--format", "hex").good().out.strip() == b"one\ntwo\n\xff".hex()


def test_keys_are_in_the_partitions_of_the_java_client(run: Run, topic: str) -> None:
    run("topics", "create", topic, "--partitions", "7").good()
    # Of org.apache.kafka.common.utils.Utils.murmur2, as Kafka's own tests have them, modulo 7.
    known = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
    run("produce", topic, "--keys", stdin="".join(f"{key}:x\n" for key in known)).good()
    consumed = [json.loads(line) for line in run("consume", topic, *ALL, "--json").good().out.splitlines()]
    assert {one["key"]: one["partition"] for one in consumed} == {
        key: (number & 0x7FFFFFFF) % 7 for key, number in known.items()
    }


def test_error_names_its_line(run: Run, topic: str, tmp_path: Path) -> None:
    run("produce", topic, stdin="x").bad(topic)
    run("topics", "create", topic).good()
    run("produce", topic, "--keys", stdin="a:b\nno separator\n").bad("line 2", "':'", status=2)
    (tmp_path / "f").write_text('{"value": 1}\n{"valu": 2}\n')
    run("produce", topic, "--json-lines", "-f", "f").bad("f:2", '"value"', status=2)
    run("produce", topic, "--json-lines", stdin='{"value": {"base64": "?"}}').bad("valid base64", status=2)
    run("produce", topic, "--json-lines", stdin='{"value": 1, "partition": 9}').bad(
        "no partition 9", status=2
    )
    run("produce", topic, "--partition", "3", stdin="x").bad("no partition 3", "0 to 0", status=2)
    run("produce", topic, "-f", "missing").bad("missing", status=2)
    run("produce", topic, "--property", "nonsense=1").bad("parse.key", status=2)
    run("produce", stdin="x").bad("which topic?", status=2)
    run("produce", topic, stdin="x" * 1_100_000).bad("line 1", "too large")
    run("topics", "alter", topic, "--set", "max.message.bytes=1000").good()
    run("produce", topic, stdin="x" * 5000).bad("line 1", "too large", "max.message.bytes")
