"""The embedded broker: one Kafka node in KRaft mode, broker and controller in one JVM.

Its folder holds ``data`` (the logs, with the cluster id in ``meta.properties``), ``server.properties`` and
``log4j2.xml``; the last two are written again at each start, so the ports may change between starts.
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
from distributary.kafka.broker_security import BrokerSecurity


@dataclass(frozen=True)
class Broker:
    """Settings, files and commands of an embedded broker. ``jars`` is a folder with exactly its classpath."""

    folder: Path
    log: Path
    java: Path
    jars: Path
    port: int
    controller_port: int
    broker_id: int = 101
    memory: str = "384m"
    security: BrokerSecurity | None = None

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"{HOST}:{self.port}"

    @property
    def own(self) -> Kafka:
        """How the stack itself connects, as a super user if there is security."""
        return self.security.kafka if self.security else Kafka(bootstrap_servers=self.address)

    def prepare(self) -> list[list[str]]:
        """Write the files, and return the commands to run to their end before the broker starts.

        There is one, the formatting, on the first start only: ``meta.properties`` is the last thing that
        it writes, so an interrupted formatting is simply repeated.
        """
        self._data.mkdir(parents=True, exist_ok=True)
        self._check_broker_id()
        write_private(self._properties, self._server_properties(), encoding="latin-1")
        self._log4j.write_text(self._log4j_xml(), encoding="utf-8")
        if self.cluster_id() is not None:
            return []
        return [
            self._java(
                # A short run: fast compilation matters more than fast code.
                ["-XX:TieredStopAtLevel=1"],
                "kafka.tools.StorageTool",
                *("format", "--ignore-formatted", "--cluster-id", new_cluster_id()),
                *("--config", str(self._properties)),
            )
        ]

    def command(self) -> list[str]:
        """The command that runs the broker. SIGTERM stops it cleanly."""
        # G1's threads and regions cost a second at the start and do not help a heap of this size. Objects
        # that survive two collections live long; copying them each time doubled every pause.
        flags = ["-XX:+ExitOnOutOfMemoryError", "-XX:MaxTenuringThreshold=2"]
        return self._java(flags, "kafka.Kafka", str(self._properties))

    def cluster_id(self) -> str | None:
        """The id that the cluster got when it was formatted; None before that."""
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
        formatted_as = self._meta().get("node.id", str(self.broker_id))
        if formatted_as != str(self.broker_id):
            raise DataFolderError(
                f"kafka.broker_id is {self.broker_id}, but {self._data} was created by broker {formatted_as}",
                hint=f"Set kafka.broker_id to {formatted_as} again, or remove that folder with its topics",
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
            # On one node, fifty partitions of internal topics only mean more files to open.
            "offsets.topic.num.partitions": 8,
            "transaction.state.log.num.partitions": 8,
            "share.coordinator.state.topic.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            # A killed broker is still registered when it restarts, and must wait this long to register again.
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 500,
            "num.network.threads": 2,
            "num.io.threads": 4,
            # As often as the embedded store: after a power failure neither is far ahead of the other.
            "log.flush.interval.ms": 1000,
            "log.flush.scheduler.interval.ms": 500,
            # The default, 128 MiB of heap for one cleaner, is a third of the heap.
            "log.cleaner.dedupe.buffer.size": 16 << 20,
        }
        if self.security is not None:
            rows |= self.security.settings(self.port, self.controller_port)
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
            # These log every setting of every client and a thousand configuration values.
            '<Logger name="org.apache.kafka.common.config.AbstractConfig" level="warn"/>'
            '<Logger name="kafka.server.KafkaConfig" level="warn"/>'
            "</Loggers></Configuration>\n"
        )


def new_cluster_id() -> str:
    """A cluster id in Kafka's form; never one that looks like an option on a command line."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _property(value: str) -> str:
    """Escape a value for a Java properties file (latin-1)."""
    escaped = value.replace("\\", "\\\\")
    return "".join(c if 31 < ord(c) < 127 else _units(c) for c in escaped)


def _units(char: str) -> str:
    raw = char.encode("utf-16-be")
    return "".join(f"\\u{raw[i]:02x}{raw[i + 1]:02x}" for i in range(0, len(raw), 2))
