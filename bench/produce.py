"""``python -m bench.produce SPEC``: produces at a steady rate, in a process of its own.

SPEC is JSON: ``bootstrap``, ``topic``, ``linger_ms`` and ``records`` (for `records.maker`). It prints one
line when it is ready; each line on standard input is a phase, ``{"rate": 1000, "seconds": 60}`` or
``{"count": 1000000}`` (as fast as it can), answered by one line when all of it is acknowledged. The numbers
of the records go on from phase to phase.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from bench.figures import percentile
from bench.records import Make, maker
from distributary.config.sections import Kafka
from distributary.kafka import librdkafka

SLICE = 0.002
"""Records that are due within so many seconds go together; at lower rates each goes on its own time."""


class Source:
    """Counts what was sent and what failed."""

    def __init__(self, producer: Producer, topic: str, make: Make) -> None:
        self.sent = 0
        self.failed = 0
        self.late = array("d")
        self._producer = producer
        self._topic = topic
        self._make = make

    def paced(self, rate: float, seconds: float) -> None:
        """Send on time; what is late is sent at once, and how late it was is kept."""
        clock, sleep = time.monotonic, time.sleep
        total = round(rate * seconds)
        each = 1.0 / rate
        began = clock()
        done = 0
        while done < total:
            due = began + done * each
            now = clock()
            if now < due:
                self._producer.poll(0)
                sleep(max(due - clock(), SLICE if rate * SLICE > 4 else 0.0))
                continue
            self.late.append(now - due)
            upto = min(total, max(done, int((now - began) * rate)) + 1)
            for _ in range(upto - done):
                self._send()
            done = upto

    def fast(self, count: int) -> None:
        """Send as fast as the broker takes it."""
        for n in range(count):
            self._send()
            if n % 1000 == 0:
                self._producer.poll(0)

    def phase(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Run one phase; returns what happened, times in ns of the monotonic clock."""
        before, failed = self.sent, self.failed
        self.late = array("d")
        begin = time.monotonic_ns()
        if "count" in asked:
            self.fast(int(asked["count"]))
        else:
            self.paced(float(asked["rate"]), float(asked["seconds"]))
        end = time.monotonic_ns()
        unsent = self._producer.flush(60)
        late = sorted(self.late) or [0.0]
        return {
            "begin_ns": begin,
            "end_ns": end,
            "acknowledged_ns": time.monotonic_ns(),
            "sent": self.sent - before,
            "failed": self.failed - failed + unsent,
            "late_p99_ms": round(percentile(late, 0.99) * 1000, 3),
            "late_max_ms": round(late[-1] * 1000, 3),
        }

    def _send(self) -> None:
        key, value = self._make(self.sent)
        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._report)
                break
            except BufferError:
                self._producer.poll(0.01)
        self.sent += 1

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1


def main() -> int:
    asked = json.loads(sys.argv[1])
    settings = {
        "linger.ms": asked["linger_ms"],
        "queue.buffering.max.messages": 200_000,
        "delivery.report.only.error": True,
    }
    kafka = Kafka(bootstrap_servers=asked["bootstrap"])
    producer = librdkafka.create(Producer, {**librdkafka.properties(kafka), "acks": "all", **settings})
    producer.list_topics(asked["topic"], timeout=20)  # connect before the clock runs
    source = Source(producer, asked["topic"], maker(**asked["records"]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(source.phase(json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
