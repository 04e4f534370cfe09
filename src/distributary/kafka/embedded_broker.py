"""The embedded broker: one Kafka node in KRaft mode, broker and controller in one JVM.

Its folder holds ``data`` (the logs, with the cluster id in ``meta.properties``), ``server.properties`` and
``log4j2.xml``; the last two are written anew at each start, so the ports may change between starts.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from distributary.config.embedded_defaults import HOST
from distributary.config.private_files import write_private
from distributary.config.sections import Kafka
from distributary.errors import DataFolderError
from distributary.kafka.broker_security import Guard


@dataclass(frozen=True)
class Broker:
    """What one embedded broker is made of. ``jars`` is a folder with exactly the broker's classpath."""

    folder: Path
    log: Path
    java: Path
    jars: Path
    port: int
    controller_port: int
    broker_id: int = 101
    memory: str = "384m"
    guard: Guard | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"{HOST}:{self.port}"

    @property
    def own(self) -> Kafka:
        """How whoever runs it connects, and may do all."""
        return self.guard.kafka if self.guard else Kafka(bootstrap_servers=self.address)

    def prepare(self) -> list[list[str]]:
        """Write the files, and return the commands to run to their end before the broker starts.

        There is one, the formatting, on the first start only: ``meta.properties`` is the last thing that
        it writes, so a formatting that was cut off is simply done again.
        """
        self._data.mkdir(parents=True, exist_ok=True)
        self._check_broker_id()
        write_private(self._properties, self._server_properties(), encoding="latin-1")
        self._log4j.write_text(self._log4j_xml(), encoding="utf-8")
        if self.cluster_id() is not None:
            return []
        return [
            self._java(
                # A short run: compiled quickly rather than well.
                ["-XX:TieredStopAtLevel=1"],
                "kafka.tools.StorageTool",
                *("format", "--ignore-formatted", "--cluster-id", new_cluster_id()),
                *("--config", str(self._properties)),
            )
        ]

    def command(self) -> list[str]:
        """The program that is the broker. SIGTERM stops it cleanly."""
        # G1's threads and regions cost a second of the start and serve no heap of this size. What outlives
        # two collections lives long, and copying it each time made every pause twice as long.
        flags = ["-XX:+ExitOnOutOfMemoryError", "-XX:MaxTenuringThreshold=2"]
        return self._java(flags, "kafka.Kafka", str(self._properties))

    def cluster_id(self) -> str | None:
        """The id that the formatting gave the cluster; None before that."""
        return self._meta().get("cluster.id")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _log4j(self) -> Path:
        return self.folder / "log4j2.xml"

    def _meta(self) -> dict[str, str]:
        try:
            text = (self._data / "meta.properties").read_text(encoding="latin-1")
        except FileNotFoundError:
            return {}
        lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
        return {name.strip(): value.strip() for name, _, value in lines}

    def _check_broker_id(self) -> None:
        made_with = self._meta().get("node.id", str(self.broker_id))
        if made_with != str(self.broker_id):
            raise DataFolderError(
                f"kafka.broker_id is {self.broker_id}, but {self._data} was made by broker {made_with}",
                hint=f"Set kafka.broker_id to {made_with} again, or remove that folder with its topics",
            )

    def _java(self, flags: list[str], main: str, *arguments: str) -> list[str]:
        return [
            str(self.java),
            f"-Xmx{self.memory}",
            *("-XX:+UseSerialGC", "-XX:-UsePerfData", *flags),
            *("-Djava.awt.headless=true", "-Dlog4j2.disableJmx=true"),
            f"-Dlog4j2.configurationFile={self._log4j}",
            *("-cp", f"{self.jars}/*", main, *arguments),
        ]

    def _server_properties(self) -> str:
        rows: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": self.broker_id,
            "controller.quorum.voters": f"{self.broker_id}@{HOST}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{HOST}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": _property(str(self._data)),
            "auto.create.topics.enable": "false",
            "delete.topic.enable": "true",
            "default.replication.factor": 1,
            "min.insync.replicas": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            # One node gains nothing from fifty partitions of its own topics but files to open.
            "offsets.topic.num.partitions": 8,
            "transaction.state.log.num.partitions": 8,
            "share.coordinator.state.topic.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            # A killed broker is still registered when it comes back; it must wait this long to be let in.
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 500,
            "num.network.threads": 2,
            "num.io.threads": 4,
            # As often as the embedded store: after a loss of power neither is far ahead of the other.
            "log.flush.interval.ms": 1000,
            "log.flush.scheduler.interval.ms": 500,
            # The default, 128 MiB of heap for one cleaner, is a third of all we have.
            "log.cleaner.dedupe.buffer.size": 16 << 20,
        }
        if self.guard is not None:
            rows |= self.guard.rows(self.port, self.controller_port)
        return "".join(f"{name}={value}\n" for name, value in rows.items())

    def _log4j_xml(self) -> str:
        file, older = quoteattr(str(self.log)), quoteattr(f"{self.log}.%i")
        return (
            '<Configuration status="error" shutdownHook="disable"><Appenders>'
            f'<RollingFile name="file" fileName={file} filePattern={older}>'
            '<PatternLayout pattern="%d{yyyy-MM-dd HH:mm:ss.SSS} %p %m (%c{1})%n"/>'
            '<Policies><SizeBasedTriggeringPolicy size="10MB"/></Policies>'
            '<DefaultRolloverStrategy max="2"/></RollingFile></Appenders>'
            '<Loggers><Root level="info"><AppenderRef ref="file"/></Root>'
            # These print every setting of every client and each of a thousand configuration values.
            '<Logger name="org.apache.kafka.common.config.AbstractConfig" level="warn"/>'
            '<Logger name="kafka.server.KafkaConfig" level="warn"/>'
            "</Loggers></Configuration>\n"
        )


def new_cluster_id() -> str:
    """A cluster id as Kafka makes them; never one that a command line would take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _property(value: str) -> str:
    """Write a value as a Java properties file (latin-1) has it."""
    escaped = value.replace("\\", "\\\\")
    return "".join(c if 31 < ord(c) < 127 else _units(c) for c in escaped)


def _units(char: str) -> str:
    raw = char.encode("utf-16-be")
    return "".join(f"\\u{raw[i]:02x}{raw[i + 1]:02x}" for i in range(0, len(raw), 2))
