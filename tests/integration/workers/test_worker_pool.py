"""Workers on a real Kafka, killed and scaled while they work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import TopicPartition
from tests.support.clock import LIMIT
from tests.support.stack import RunningStack

from distributary.kafka import librdkafka
from distributary.kafka.topics import delete_topic, ensure_topic

FUNCTIONS = """
import json, time

def double(record):
    time.sleep(0.002)
    return {"n": json.loads(record.value)["n"] * 2}

async def picky(record):
    if b"bad" in record.value:
        raise ValueError("it is bad")
    return record.value.upper()

def slow(record):
    time.sleep(0.3)
    return record.value
"""


class Pool:
    """``distributary worker run`` in a folder of its own."""

    def __init__(self, stack: RunningStack, folder: Path, partitions: int) -> None:
        self.stack, self.folder = stack, folder
        self.topic, self.to = (f"w.t{uuid.uuid4().hex[:8]}" for _ in range(2))
        self.partitions = partitions
        (folder / "functions.py").write_text(FUNCTIONS)
        self._env = {**os.environ, "DISTRIBUTARY_DATA_DIR": str(folder / "data")}
        admin = stack.admin()
        ensure_topic(admin, self.topic, partitions)
        ensure_topic(admin, self.to, 1)
        self.process: subprocess.Popen[str] | None = None

    def start(self, function: str, *words: str) -> subprocess.Popen[str]:
        argv = ["run", f"functions:{function}", "--topic", self.topic, "--to", self.to, "--name", "pool"]
        servers = self.stack.config.kafka.bootstrap_servers
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "distributary.cli",
                "worker",
                *argv,
                "--bootstrap-server",
                servers,
                *words,
            ],
            cwd=self.folder,
            env=self._env,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self.process

    def ask(self, *words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "distributary.cli", "worker", *words, "--json"],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=60 * LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def state(self) -> dict[str, Any]:
        path = self.folder / "data" / "workers" / "pool.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def until(self, ready: Callable[[dict[str, Any]], bool], limit: float = 40.0) -> dict[str, Any]:
        deadline = time.monotonic() + limit * LIMIT
        while not ready(status := self.state()):
            assert time.monotonic() < deadline, status
            assert self.process is None or self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)
        return status

    def workers(self) -> list[psutil.Process]:
        assert self.process is not None
        return list(psutil.Process(self.process.pid).children())

    def produce(self, count: int) -> None:
        self.stack.produce(self.topic, ((f"k{n % 50}", {"n": n}) for n in range(count)))

    def written(self, ready: Callable[[list[bytes]], bool], limit: float = 40.0) -> list[bytes]:
        """What readers of committed records see."""
        consumer = librdkafka.consumer(self.stack.config.kafka, f"t-{uuid.uuid4()}")
        consumer.assign([TopicPartition(self.to, 0, 0)])
        found: list[bytes] = []
        deadline = time.monotonic() + limit * LIMIT
        try:
            while not ready(found) and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append(message.value() or b"")
            return found
        finally:
            consumer.close()

    def stop(self) -> str:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        _, status = self.process.communicate(timeout=40 * LIMIT)
        return status


@pytest.fixture
def make_pool(stack: RunningStack, tmp_path: Path) -> Iterator[Callable[[int], Pool]]:
    made: list[Pool] = []

    def make(partitions: int) -> Pool:
        made.append(Pool(stack, tmp_path, partitions))
        return made[-1]

    yield make
    admin = stack.admin()
    for pool in made:
        if pool.process is not None:
            pool.process.kill()
            pool.process.communicate()
        for name in (pool.topic, pool.to, f"{pool.topic}.dead-letters"):
            delete_topic(admin, name)


def test_killed_workers_lose_nothing_and_repeat_nothing_with_exactly_once(
    make_pool: Callable[[int], Pool],
) -> None:
    pool, count = make_pool(4), 1_000
    pool.produce(count)
    pool.start("double", "--exactly-once", "--min", "2", "--max", "2", "--batch", "40")
    for killed in range(2):
        enough = 150 * (killed + 1)
        pool.until(lambda status, n=enough: status.get("done", 0) > n and len(pool.workers()) == 2)  # type: ignore[misc]
        pool.workers()[killed % 2].kill()
        pool.until(lambda status, n=killed: status["restarts"] > n)  # type: ignore[misc]
    pool.produce(count)
    written = pool.written(lambda found: len(found) >= 2 * count)
    values = Counter(json.loads(value)["n"] for value in written)
    assert values == Counter({2 * n: 2 for n in range(count)})
    assert "was killed by SIGKILL" in pool.stop()
    assert pool.written(lambda found: len(found) > 2 * count, 1.0) == written, "nothing came twice"


def test_pool_scales_by_lag_and_by_request_and_its_workers_end_with_it(
    make_pool: Callable[[int], Pool],
) -> None:
    pool, count = make_pool(3), 2_000
    process = pool.start("double", "--lag-per-worker", "100", "--calm", "0.5")
    pool.until(lambda status: status.get("workers") == 1 and status["lag"] == 0)
    pool.produce(count)
    pool.until(lambda status: status["workers"] == 3)
    pool.until(lambda status: status["workers"] == 1 and status["done"] == count)
    assert pool.ask("scale", "pool", "9")["workers"] == 3, "not more than partitions"
    (shown,) = pool.ask("list")
    assert (shown["min"], shown["max"], shown["workers"], shown["lag"]) == (9, 9, 3, 0)
    workers = pool.workers()
    process.kill()
    process.communicate()
    _, left = psutil.wait_procs(workers, 20 * LIMIT)
    assert not left, "workers whose pool was killed end"
    assert pool.ask("list") == []
    pool.produce(count)
    pool.start("double", "--min", "3")
    values = Counter(json.loads(value)["n"] for value in pool.written(lambda found: len(found) >= 2 * count))
    assert set(values) == {2 * n for n in range(count)}
    assert min(values.values()) == 2, "none was lost"
    assert pool.ask("stop", "pool") == {"stopped": "pool"}


def test_pool_writes_dead_letters_and_completes_records_when_stopped(
    make_pool: Callable[[int], Pool],
) -> None:
    pool = make_pool(1)
    pool.stack.produce(pool.topic, [("a", b"one"), ("b", b"bad one"), ("c", b"two")])
    pool.start("picky", "--retries", "1", "--backoff", "0.05")
    pool.until(lambda status: status.get("done") == 3)
    assert pool.written(lambda found: len(found) >= 2) == [b"ONE", b"TWO"]
    (letter,) = pool.stack.read(f"{pool.topic}.dead-letters", 1)
    assert letter.value() == b"bad one"
    headers = dict(letter.headers() or ())
    assert headers["distributary-reason"] == b"ValueError: it is bad"
    assert (headers["distributary-partition"], headers["distributary-offset"]) == (b"0", b"1")
    assert "3 records done, 1 of them dead letters" in pool.stop()
    group = f"slow_{pool.topic}"
    pool.start("slow", "--group", group)
    pool.until(lambda status: status.get("done", 0) >= 1)
    status = pool.stop()
    assert pool.process is not None
    assert pool.process.returncode == 0, status
    assert f"note: group '{group}' does not follow the naming convention" in status
    pool.start("slow", "--group", group)
    pool.until(lambda status: status.get("lag") == 0)
    pool.stop()
    slow = [value for value in pool.written(lambda found: len(found) >= 5) if value.islower()]
    assert slow == [b"one", b"bad one", b"two"], "each once: what was finished was committed"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("functions:dubble", "--topic", "TOPIC"), "has no 'dubble'"),
        (("functions:double", "--topic", "w.none"), "w.none"),
        (("functions:double", "--topic", "TOPIC", "--exactly-once"), "--exactly-once requires --to"),
        (("functions:double", "--topic", "TOPIC", "--group", "no"), "does not follow the convention [A-Z]+"),
    ],
)
def test_worker_run_refuses_bad_input(
    make_pool: Callable[[int], Pool], words: tuple[str, ...], expected: str
) -> None:
    pool = make_pool(1)
    given = [word.replace("TOPIC", pool.topic) for word in words]
    servers = pool.stack.config.kafka.bootstrap_servers
    (pool.folder / "distributary.toml").write_text("[naming]\ngroups = '[A-Z]+'\n")
    done = subprocess.run(
        [sys.executable, "-m", "distributary.cli", "worker", "run", *given, "--bootstrap-server", servers],
        cwd=pool.folder,
        capture_output=True,
        text=True,
        timeout=60 * LIMIT,
        check=False,
    )
    assert done.returncode != 0
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
