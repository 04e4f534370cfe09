"""An embedded Kafka broker of a test's own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from distributary.config.sections import Kafka
from distributary.kafka import config_admin
from distributary.kafka.admin import connect, wait_for_kafka
from distributary.kafka.embedded_broker import Broker
from distributary.setup import jars, java
from tests.support.clock import LIMIT
from tests.support.processes import suspend
from tests.support.servers import free_port


def keep_old_records(kafka: Kafka) -> None:
    """Let no record be deleted for its age.

    Every five minutes Kafka deletes what is older than a week by its own timestamp. Tests write records with
    fixed times in the past, and one that is alone in its segment at that moment would be gone.
    """
    cluster = connect(kafka, 10 * LIMIT)
    for broker in cluster.admin.list_topics(timeout=10 * LIMIT).brokers:
        config_admin.alter_config(cluster, "broker", str(broker), {"log.retention.ms": "-1"})


class RunningBroker:
    """An embedded broker, run by hand."""

    def __init__(self, folder: Path) -> None:
        self.broker = Broker(
            folder, folder / "kafka.log", java.find().path, jars.ensure("kafka"), free_port(), free_port()
        )
        self.kafka = Kafka(bootstrap_servers=self.broker.address)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start it; return the id of the cluster that answers."""
        first = self._process is None
        for command in self.broker.prepare():
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60 * LIMIT)
        self._process = subprocess.Popen(
            self.broker.command(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        try:
            cluster = wait_for_kafka(self.kafka, 60 * LIMIT)
            if first:
                keep_old_records(self.kafka)
        except BaseException:
            self.kill()
            raise
        return cluster

    @property
    def pid(self) -> int:
        """Of the broker's process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """As a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Let it answer nothing until `resume`; what is sent to it meanwhile it does then."""
        suspend(self.pid)

    def resume(self) -> None:
        """Let it answer again."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(30 * LIMIT)

    def lose_tail(self, topic: str, partition: int, size: int) -> None:
        """Cut so many bytes off the end of a partition's log, while the broker is down after a kill."""
        newest = max((self.broker.folder / "data" / f"{topic}-{partition}").glob("*.log"))
        with newest.open("r+b") as file:
            file.truncate(max(0, newest.stat().st_size - size))
