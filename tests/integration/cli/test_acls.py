"""Access control lists: refused command lines. Lists themselves: tests/integration/secured."""

from __future__ import annotations

from tests.integration.cli.conftest import Run


def test_incomplete_acl_is_refused(run: Run) -> None:
    run("acls", "add", "--operation", "read", "--topic", "t").bad("which user?", status=2)
    run("acls", "add", "--principal", "ann", "--operation", "read", "--topic", "t").bad("User:ann", status=2)
    run("acls", "add", "--principal", "User:ann", "--operation", "read").bad(
        "which topic or group?", status=2
    )
    run("acls", "add", "--principal", "User:ann", "--topic", "t").bad("which operation?", status=2)
    run("acls", "add", "--principal", "User:ann", "--consumer", "--topic", "t").bad("--group", status=2)
    run("acls", "add", "--principal", "User:a", "--operation", "reed", "--topic", "t").bad('"read"', status=2)
    run("acls", "remove").bad("which ACLs?", status=2)


def test_cluster_without_authorizer_names_the_setting(run: Run) -> None:
    run("acls", "list").bad("authorizer.class.name")
