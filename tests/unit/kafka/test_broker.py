"""What the embedded broker is started with."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from distributary.errors import DataFolderError
from distributary.kafka.broker import Broker, new_cluster_id


def broker(folder: Path, broker_id: int = 101) -> Broker:
    return Broker(
        folder, folder / "kafka.log", Path("/java"), Path("/jars"), 1111, 2222, broker_id, memory="300m"
    )


def properties(folder: Path) -> dict[str, str]:
    lines = (folder / "server.properties").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_topics_are_never_made_by_accident_and_one_node_is_enough(tmp_path: Path) -> None:
    broker(tmp_path).prepare()
    rows = properties(tmp_path)
    assert rows["auto.create.topics.enable"] == "false"
    assert rows["delete.topic.enable"] == "true"
    assert rows["process.roles"] == "broker,controller"
    assert rows["listeners"] == "PLAINTEXT://127.0.0.1:1111,CONTROLLER://127.0.0.1:2222"
    factors = {value for name, value in rows.items() if name.endswith(("replication.factor", "min.isr"))}
    assert factors == {"1"}


def test_it_is_formatted_once_and_keeps_its_cluster_id(tmp_path: Path) -> None:
    made = broker(tmp_path)
    assert made.cluster_id() is None
    (command,) = made.prepare()
    assert "kafka.tools.StorageTool" in command
    meta = "#\nversion=1\nnode.id=101\ncluster.id=abc\n"
    (tmp_path / "data" / "meta.properties").write_text(meta)
    assert made.prepare() == []
    assert made.cluster_id() == "abc"
    assert "-Xmx300m" in made.command()


def test_another_broker_id_over_the_same_data_is_refused(tmp_path: Path) -> None:
    broker(tmp_path).prepare()
    (tmp_path / "data" / "meta.properties").write_text("node.id=101\ncluster.id=abc\n")
    with pytest.raises(DataFolderError, match=r"broker_id is 102, .* made by broker 101"):
        broker(tmp_path, 102).prepare()


def test_odd_folders_are_written_so_that_java_reads_them(tmp_path: Path) -> None:
    odd = tmp_path / "naïve & \\ <dir>"
    broker(odd).prepare()
    assert properties(odd)["log.dirs"] == str(odd / "data").replace("\\", "\\\\").replace("ï", "\\u00ef")
    appender = ElementTree.parse(odd / "log4j2.xml").find("./Appenders/RollingFile")
    assert appender is not None
    assert appender.get("fileName") == str(odd / "kafka.log")


def test_cluster_ids_are_as_kafka_makes_them() -> None:
    ids = {new_cluster_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", one) for one in ids)
