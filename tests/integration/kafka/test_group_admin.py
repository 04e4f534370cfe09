"""Groups on a broker that has just started and has no coordinator yet."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.broker import RunningBroker
from tests.support.clock import LIMIT

pytestmark = pytest.mark.slow

READS = """
import sys
from distributary.config.sections import Kafka
from distributary.kafka import group_admin, librdkafka
from distributary.kafka.admin import Cluster
kafka = Kafka(bootstrap_servers=sys.argv[1])
cluster = Cluster(kafka, librdkafka.admin(kafka))
print([group_admin.committed_offsets(cluster, f"group-{n}") for n in range(3)])
"""


def test_committed_offsets_wait_for_the_first_coordinator(broker: RunningBroker) -> None:
    """In a separate process: librdkafka crashes (SIGSEGV) if it asks before there is a coordinator."""
    done = subprocess.run(
        [sys.executable, "-c", READS, broker.kafka.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=60 * LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[{}, {}, {}]\n"), done.stderr
