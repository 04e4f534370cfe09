"""`distributary up` as a separate process, with a real Kafka and a real store; its services are fakes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from tests.support.clock import LIMIT
from tests.support.servers import free_port

from distributary.config.embedded_defaults import store_secret
from distributary.config.private_files import read_secret
from distributary.config.secrets import MASK
from distributary.config.sections import Kafka
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.topics import get_topic, list_topics
from distributary.stack import orphans, processes, stack_file

pytestmark = pytest.mark.slow

SERVE = """
import json, os, signal, subprocess, sys
# A descendant that leaves the session, as Spark's do.
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
port = os.environ["DISTRIBUTARY_CONTROL_PORT"]
addresses = {"http": f"http://127.0.0.1:{port}"}
print(json.dumps({"ready": True, "component": "control", "addresses": addresses}), flush=True)
signal.signal(signal.SIGTERM, lambda *a: sys.exit(0))
signal.pause()
"""
FAIL = "import sys; print('the reason stands here', file=sys.stderr); sys.exit(1)"

DRIVER = """
import sys
from pathlib import Path
from distributary.cli.up_command import up
from distributary.config import load
from distributary.errors import DistributaryError
from distributary.stack.process_keeper import Policy
from distributary.stack.stack_components import Service
try:
    services = [Service("control", [sys.executable, "-c", sys.argv[2]])]
    sys.exit(up(load(Path(sys.argv[1])), as_json=True, services=services, policy=Policy(first=0.1)))
except DistributaryError as error:
    print(error, file=sys.stderr)
    sys.exit(1)
"""


class Up:
    """A running `up`, and its events."""

    def __init__(self, folder: Path, service: str = SERVE) -> None:
        self.data = folder / "data"
        self._errors = (folder / "stderr").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(folder / "distributary.toml"), service],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self.events: list[dict[str, Any]] = []
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def wait_for(self, kind: str, component: str = "") -> dict[str, Any]:
        """Wait for the next such event; fails with the errors of the stack if it ends instead."""
        deadline = time.monotonic() + 60 * LIMIT
        while True:
            event = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            assert event is not None, f"it ended: {self.errors()} {self.events}"
            if (event["event"], event.get("component", "")) == (kind, component):
                return event

    def end(self, number: signal.Signals, limit: float = 10.0) -> tuple[int, float]:
        """Signal its whole process group, as a terminal does; return exit code and seconds."""
        began = time.monotonic()
        os.killpg(self.process.pid, number)
        code = self.process.wait(limit * max(1.0, LIMIT))
        return code, time.monotonic() - began

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20 * LIMIT)
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    @property
    def stack(self) -> stack_file.StackState:
        found = stack_file.read(self.data)
        assert found is not None
        return found

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(event)
            self._queue.put(event)
        self._queue.put(None)


@contextlib.contextmanager
def up(folder: Path, service: str = SERVE) -> Iterator[Up]:
    running = Up(folder, service)
    try:
        yield running
    finally:
        running.close()
        for process in orphans.find((running.data / "stack.id").read_text().strip(), running.data):
            process.kill()


def configure(folder: Path, kafka_port: int, store_port: int) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "distributary.toml").write_text(
        f'data_dir = "data"\n[kafka]\nport = {kafka_port}\n[store]\nport = {store_port}\n'
        '[[feeds]]\nname = "odds"\ntopic = "odds"\ncreate = true\npartitions = 3\n'
        '[[feeds]]\nname = "other"\ntopic = "other"\n'
        '[[views]]\nname = "odds"\nfeed = "odds"\n'
    )
    return folder


def kafka_at(addresses: dict[str, str]) -> Kafka:
    return Kafka(bootstrap_servers=addresses["kafka"])


def store_of(folder: Path, addresses: dict[str, str]) -> redis.Redis:
    """Connect to the store of a stack: its address has no password, which is in the data folder."""
    password = read_secret(store_secret(folder / "data"))
    assert password is not None
    assert password not in addresses["store"]
    return redis.Redis.from_url(addresses["store"].replace(MASK, password))


def put(folder: Path, addresses: dict[str, str], value: str) -> None:
    producer = librdkafka.producer(kafka_at(addresses))
    producer.produce("odds", value, partition=0)
    assert producer.flush(20) == 0
    with store_of(folder, addresses) as store:
        store.set("kept", value)


def records(addresses: dict[str, str]) -> int:
    return topic_offsets.end_offsets(librdkafka.admin(kafka_at(addresses)), "odds")[0]


def test_two_stacks_run_side_by_side_when_the_usual_ports_are_busy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        busy = one.getsockname()[1], two.getsockname()[1]
        a, b = configure(tmp_path / "a", *busy), configure(tmp_path / "b", *busy)
        with up(a) as first, up(b) as second:
            here, there = first.wait_for("ready")["addresses"], second.wait_for("ready")["addresses"]
            assert not set(here.values()) & set(there.values())
            assert not {f":{port}" for port in busy} & {f":{where.split(':')[-1]}" for where in here.values()}
            put(a, here, "mine")
            kept = [a / "data", *(a / "data").rglob("*")]
            loose = [path for path in kept if path.exists() and path.lstat().st_mode & 0o077]
            assert loose == [], "no file is readable by other users"
            assert (records(here), records(there)) == (1, 0)
            admin = librdkafka.admin(kafka_at(here))
            assert get_topic(admin, "odds").partitions == 3
            made = list_topics(admin)
            assert made == ["distributary.commands", "odds", "odds.dead-letters", "other.dead-letters"]
            with store_of(b, there) as store:
                assert store.get("kept") is None

            refused = Up(a)
            assert refused.process.wait(20 * LIMIT) == 1
            assert f"(pid {first.process.pid}) runs in" in refused.errors()
            refused.close()

            code, seconds = first.end(signal.SIGINT)
            assert (code, seconds < 10 * max(1.0, LIMIT)) == (0, True)
            assert processes.marked(first.stack.stack) == []
            assert processes.marked(second.stack.stack) != [], "the other one is left alone"


def test_killed_components_restart_and_a_killed_up_leaves_its_data(tmp_path: Path) -> None:
    folder = configure(tmp_path / "a", free_port(), free_port())
    with up(folder) as first:
        addresses = first.wait_for("ready")["addresses"]
        put(folder, addresses, "1")
        before = {component.name: component.pid for component in first.stack.components}
        for name in ("store", "control", "kafka"):
            pid = before[name]
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            assert "killed by SIGKILL" in first.wait_for("died", name)["message"]
            first.wait_for("ready", name)
        after = first.stack
        assert {component.name: component.restarts for component in after.components} == {
            "kafka": 1,
            "store": 1,
            "control": 1,
        }
        assert after.addresses == addresses, "a restarted component has the same addresses"
        put(folder, addresses, "2")
        first.end(signal.SIGKILL)
        left = processes.marked(after.stack)
        assert {component.pid for component in after.components} < {process.pid for process in left}

        with up(folder) as second:
            assert "left behind" in second.wait_for("note")["message"]
            again = second.wait_for("ready")["addresses"]
            assert again == addresses, "the ports are free again, and remembered"
            assert not [process for process in left if processes.alive(process)]
            assert records(again) == 2
            with store_of(folder, again) as store:
                assert store.get("kept") == b"2"
            code, seconds = second.end(signal.SIGTERM)
            assert (code, seconds < 10 * max(1.0, LIMIT)) == (0, True)
            assert processes.marked(after.stack) == []
            assert not psutil.pid_exists(second.process.pid)


def test_up_ends_with_the_log_of_a_service_that_always_fails(tmp_path: Path) -> None:
    folder = configure(tmp_path / "a", free_port(), free_port())
    with up(folder, FAIL) as running:
        assert running.wait_for("died", "control")["log"] == ["the reason stands here"]
        assert running.wait_for("failed", "control")["log"] == ["the reason stands here"]
        assert running.process.wait(20 * LIMIT) == 1
        assert "control does not start: ended with exit code 1; given up after 5 starts" in running.errors()
        assert str(running.data / "logs" / "control.log") in running.errors()
        assert processes.marked(running.stack.stack) == []


def test_ctrl_c_during_the_start_leaves_no_process(tmp_path: Path) -> None:
    folder = configure(tmp_path / "a", free_port(), free_port())
    with up(folder) as running:
        running.wait_for("starting", "kafka")
        code, seconds = running.end(signal.SIGINT)
        assert (code, seconds < 10 * max(1.0, LIMIT)) == (0, True)
        assert processes.marked(running.stack.stack) == []


def test_folder_of_a_later_version_is_refused(tmp_path: Path) -> None:
    folder = configure(tmp_path / "a", free_port(), free_port())
    (folder / "data").mkdir()
    (folder / "data" / "version").write_text("99\n")
    running = Up(folder)
    assert running.process.wait(20 * LIMIT) == 1
    assert "has version 99" in running.errors()
    running.close()


def test_missing_schema_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    folder = configure(tmp_path / "a", free_port(), free_port())
    with (folder / "distributary.toml").open("a") as file:
        file.write('[[topics]]\nname = "bets"\nschema = "bet.json"\n')
    running = Up(folder)
    assert running.process.wait(20 * LIMIT) == 1
    assert "topics.bets.schema" in running.errors()
    assert not (folder / "data").exists()
    running.close()
