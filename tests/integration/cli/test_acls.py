"""Access control lists: what is typed wrongly. Lists themselves: tests/integration/secured."""

from __future__ import annotations

from tests.integration.cli.conftest import Run


def test_what_is_refused(run: Run) -> None:
    run("acls", "add", "--operation", "read", "--topic", "t").bad("who?", status=2)
    run("acls", "add", "--principal", "ann", "--operation", "read", "--topic", "t").bad("User:ann", status=2)
    run("acls", "add", "--principal", "User:ann", "--operation", "read").bad("on what?", status=2)
    run("acls", "add", "--principal", "User:ann", "--topic", "t").bad("what may be done?", status=2)
    run("acls", "add", "--principal", "User:ann", "--consumer", "--topic", "t").bad("--group", status=2)
    run("acls", "add", "--principal", "User:a", "--operation", "reed", "--topic", "t").bad('"read"', status=2)
    run("acls", "remove").bad("which?", status=2)


def test_a_cluster_without_lists_says_so(run: Run) -> None:
    run("acls", "list").bad("authorizer.class.name")
