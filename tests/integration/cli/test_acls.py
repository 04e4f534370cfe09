"""Access control lists, on a broker of their own that has an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Run
from tests.integration.kafka.conftest import RunningBroker

AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    "super.users=User:ANONYMOUS\n"
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that keeps lists."""
    running = RunningBroker(tmp_path_factory.mktemp("guarded"), more=AUTHORIZER)
    running.start()
    yield running.broker.address
    running.stop()


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def test_added_listed_and_removed(run: Run, guarded: str) -> None:
    at = ("--bootstrap-server", guarded)
    run(
        "acls", "add", "--principal", "User:ann", "--operation", "read", "--topic", "shop.", "--prefixed", *at
    ).good()
    run("acls", "add", "--principal", "User:ann", "--consumer", "--topic", "t", "--group", "g", *at).good()
    run(
        "acls", "--add", "--deny-principal", "User:bob", "--operation", "DescribeConfigs", "--cluster", *at
    ).good()
    assert rows(run("acls", "list", *at).good().out) == [
        ["User:bob", "deny", "describe-configs", "cluster", "kafka-cluster", "*"],
        ["User:ann", "allow", "read", "group", "g", "*"],
        ["User:ann", "allow", "read", "topic", "shop.*", "*"],
        ["User:ann", "allow", "describe", "topic", "t", "*"],
        ["User:ann", "allow", "read", "topic", "t", "*"],
    ]
    (one,) = run("acls", "list", "--group", "g", "--json", *at).good().json
    assert one == {
        "kind": "group",
        "name": "g",
        "principal": "User:ann",
        "operation": "read",
        "host": "*",
        "allow": True,
        "prefixed": False,
    }
    shown = run("acls", "remove", "--principal", "User:ann", "--topic", "t", *at).good()
    assert "--execute" in shown.err
    assert len(rows(run("acls", "list", *at).good().out)) == 5
    run("acls", "remove", "--principal", "User:ann", "--topic", "t", "--execute", *at).good()
    run("acls", "--remove", "--deny-principal", "User:bob", "--force", *at).good()
    assert len(rows(run("acls", "list", *at).good().out)) == 2


def test_what_is_refused(run: Run, guarded: str, tmp_path: Path) -> None:
    at = ("--bootstrap-server", guarded)
    run("acls", "add", "--operation", "read", "--topic", "t", *at).bad("who?", status=2)
    run("acls", "add", "--principal", "ann", "--operation", "read", "--topic", "t", *at).bad(
        "User:ann", status=2
    )
    run("acls", "add", "--principal", "User:ann", "--operation", "read", *at).bad("on what?", status=2)
    run("acls", "add", "--principal", "User:ann", "--topic", "t", *at).bad("what may be done?", status=2)
    run("acls", "add", "--principal", "User:ann", "--consumer", "--topic", "t", *at).bad("--group", status=2)
    run("acls", "add", "--principal", "User:a", "--operation", "reed", "--topic", "t", *at).bad(
        '"read"', status=2
    )
    run("acls", "remove", *at).bad("which?", status=2)


def test_a_cluster_without_lists_says_so(run: Run) -> None:
    run("acls", "list").bad("authorizer.class.name")
