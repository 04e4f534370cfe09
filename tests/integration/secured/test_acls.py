"""Access control lists: added, listed, removed, and what they keep from whom."""

from __future__ import annotations

import time

import pytest
from tests.integration.cli.conftest import Done, Run
from tests.integration.secured.conftest import As, with_password
from tests.support.clock import LIMIT
from tests.support.secured_kafka import SecuredCluster


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def test_acls_are_added_listed_and_removed(run: Run) -> None:
    run(
        "acls", "add", "--principal", "User:ann", "--operation", "read", "--topic", "shop.", "--prefixed"
    ).good()
    run("acls", "add", "--principal", "User:ann", "--consumer", "--topic", "t", "--group", "g").good()
    run("acls", "--add", "--deny-principal", "User:bob", "--operation", "DescribeConfigs", "--cluster").good()
    assert rows(run("acls", "list").good().out) == [
        ["User:bob", "deny", "describe-configs", "cluster", "kafka-cluster", "*"],
        ["User:ann", "allow", "read", "group", "g", "*"],
        ["User:ann", "allow", "read", "topic", "shop.*", "*"],
        ["User:ann", "allow", "describe", "topic", "t", "*"],
        ["User:ann", "allow", "read", "topic", "t", "*"],
    ]
    (one,) = run("acls", "list", "--group", "g", "--json").good().json
    assert one == {
        "kind": "group",
        "name": "g",
        "principal": "User:ann",
        "operation": "read",
        "host": "*",
        "allow": True,
        "prefixed": False,
    }
    shown = run("acls", "remove", "--principal", "User:ann", "--topic", "t").good()
    assert "--execute" in shown.err
    assert len(rows(run("acls", "list").good().out)) == 5
    run("acls", "remove", "--principal", "User:ann", "--topic", "t", "--execute").good()
    run("acls", "--remove", "--deny-principal", "User:bob", "--force").good()
    assert len(rows(run("acls", "list").good().out)) == 2


HINT = "distributary acls add --principal User:NAME"


@pytest.fixture
def ann(secured: SecuredCluster, by: As) -> tuple[str, ...]:
    """The options of a user who has no permissions but those of ACLs."""
    return by(with_password(secured, "ann"))


@pytest.fixture
def lists(run: Run) -> None:
    """No list is left of another test."""
    run("acls", "remove", "--principal", "User:ann", "--execute")


@pytest.mark.usefixtures("lists")
def test_denied_request_names_the_missing_acl(run: Run, topic: str, ann: tuple[str, ...]) -> None:
    words: tuple[str, ...]
    for words in (
        ("topics", "create", f"{topic}-new"),
        ("topics", "describe", topic),
        ("topics", "alter", topic, "--set", "retention.ms=1"),
        ("topics", "alter", topic, "--partitions", "3"),
        ("topics", "delete", topic),
        ("configs", "describe", "topic", topic),
        ("records", "delete", topic, "--before", "0"),
        ("consume", topic, "--from-beginning", "--until-end"),
        ("produce", topic),
    ):
        run(*words, *ann, stdin="x").bad(
            f"topic {topic}", "uthorization failed", f"{HINT} --operation OPERATION --topic"
        )
    for words in (
        ("describe", "shop.g"),
        ("delete", "shop.g"),
        ("reset", "shop.g", "--topic", topic, "--to-latest"),
    ):
        run("groups", *words, *ann).bad("group shop.g", "Group authorization failed", "--group GROUP")
    for words in (
        ("acls", "list"),
        ("acls", "add", "--principal", "User:ann", "--operation", "read", "--topic", "t"),
        ("configs", "describe", "broker", "1"),
        ("quotas", "list"),
    ):
        done = run(*words, *ann).bad("Cluster authorization failed", "--cluster")
        assert "Request(" not in done.err
    assert topic not in run("topics", "list", *ann).good().out, "what one may not see is not there"


def once_listed(run: Run, *words: str, denied: str, stdin: str = "") -> Done:
    """Run a command until no broker denies it as before: each learns of a new list by itself, a bit later."""
    deadline = time.monotonic() + 10 * LIMIT
    while denied in (done := run(*words, stdin=stdin)).err:
        assert time.monotonic() < deadline, done.err
    return done


@pytest.mark.usefixtures("lists")
def test_user_who_may_only_list_acls(run: Run, topic: str, ann: tuple[str, ...]) -> None:
    unseen = "cannot describe topic"
    run("acls", "add", "--principal", "User:ann", "--operation", "describe", "--topic", topic).good()
    # Nobody who may write nothing gets as far as a record: there is no number to be had for it.
    done = once_listed(run, "produce", topic, *ann, stdin="x", denied=unseen)
    done.bad(f"writing to {topic}", "idempotence", f"{HINT} --operation")
    assert "%0|" not in done.err, "librdkafka prints nothing by itself"
    delete = ("records", "delete", topic, "--before", "0", "--execute")
    once_listed(run, *delete, *ann, denied=unseen).bad(f"{topic}, partition 0", HINT)
    grouped = ("consume", topic, "--group", "shop.g")
    once_listed(run, *grouped, *ann, denied=unseen).bad("group shop.g", "--group GROUP")
    run(
        "acls", "add", "--principal", "User:ann", "--operation", "read", "--group", "distributary.consume"
    ).good()
    consume = ("consume", topic, "--from-beginning", "--until-end", *ann)
    once_listed(run, *consume, denied="Group authorization failed").good()  # there is nothing yet
    run("produce", topic, stdin="x").good()
    once_listed(run, *consume, denied="Group authorization failed").bad(f"topic {topic}", HINT)
    run("acls", "add", "--principal", "User:ann", "--producer", "--topic", topic).good()
    once_listed(run, "produce", topic, *ann, stdin="y", denied="uthorization failed").good()
