from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.integration.cli.conftest import Run

from distributary.config.sections import Kafka
from distributary.errors import KafkaRefused
from distributary.kafka import quota_admin
from distributary.kafka.admin import Cluster


@pytest.fixture
def name(run: Run) -> Iterator[str]:
    """A unique name."""
    name = f"user-{uuid.uuid4().hex[:8]}"
    yield name
    for kind in ("--user", "--client-id"):
        run("quotas", "delete", kind, name)


def test_quotas_are_set_listed_and_deleted(run: Run, name: str) -> None:
    run(
        "quotas", "set", "--client-id", name, "--producer-byte-rate", "1048576", "--consumer-byte-rate", "2e6"
    ).good()
    run("quotas", "set", "--user", name, "--client-id", name, "--request-percentage", "12.5").good()
    rows = [line for line in run("quotas", "list").good().out.splitlines() if name in line]
    assert sorted(row.split("  ")[-1].strip() for row in rows) == ["1,048,576", "12.5", "2,000,000"]
    (one,) = run("quotas", "list", "--client-id", name, "--json").good().json
    assert one == {
        "of": {"client": name},
        "values": {"producer_byte_rate": 1048576.0, "consumer_byte_rate": 2e6},
    }
    run("quotas", "set", "--client-id", name, "--producer-byte-rate", "5").good()
    run("quotas", "delete", "--client-id", name, "consumer_byte_rate").good()
    (one,) = run("quotas", "list", "--client-id", name, "--json").good().json
    assert one["values"] == {"producer_byte_rate": 5.0}, "the others stay as they are"
    run("quotas", "delete", "--client-id", name).good()
    run("quotas", "delete", "--user", name, "--client-id", name).good()
    assert name not in run("quotas", "list").good().out


def test_default_quota_of_users_is_set_and_deleted(run: Run) -> None:
    run("quotas", "set", "--user-default", "--controller-mutation-rate", "1000").good()
    assert "user (default)" in run("quotas", "list").good().out
    run("quotas", "delete", "--user-default").good()


def test_wrong_command_line_is_refused(run: Run, name: str) -> None:
    run("quotas", "set", "--producer-byte-rate", "1").bad("whose quotas?", status=2)
    run("quotas", "set", "--client-id", name).bad("which quota?", status=2)
    run("quotas", "set", "--client-id", name, "--producer-byte-rate", "much").bad("much", status=2)
    run("quotas", "set", "--client-id", name, "--set", "producer_bite_rate=1").bad(
        "producer_byte_rate", status=2
    )
    run("quotas", "set", "--ip", "127.0.0.1", "--user", name, "--request-percentage", "1").bad(
        "--ip", status=2
    )
    run("quotas", "set", "--ip", "127.0.0.1", "--request-percentage", "1").bad("ip 127.0.0.1")
    run("quotas", "set", "--user", name, "--user-default", "--request-percentage", "1").bad(
        "not both", status=2
    )
    run("quotas", "delete", "--client-id", name).bad("no quota of client", "quotas list")


def test_unsupported_login_names_kafkas_own_tool() -> None:
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    secured = Kafka(bootstrap_servers="127.0.0.1:1", properties=properties)
    with pytest.raises(KafkaRefused, match="OAUTHBEARER") as caught:
        quota_admin.describe(Cluster(secured, None))  # type: ignore[arg-type]
    assert "kafka-configs.sh" in caught.value.hint
