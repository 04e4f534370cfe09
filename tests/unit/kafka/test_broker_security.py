"""The ACLs of the parts: none may do what is another's."""

from __future__ import annotations

from distributary.kafka.broker_security import COMPONENTS, component_acls, user_of

FOUND = component_acls("commands", "schemas")


def of(part: str, *, allow: bool) -> set[tuple[str, str, str]]:
    mine = [one for one in FOUND if one.principal == f"User:{user_of(part)}" and one.allow == allow]
    return {(one.kind, one.name, one.operation) for one in mine}


def test_every_component_has_acls_and_none_on_the_cluster() -> None:
    assert {one.principal for one in FOUND} == {f"User:{user_of(part)}" for part in COMPONENTS}
    assert not [one for one in FOUND if one.kind == "cluster" or one.operation in ("all", "alter")]
    assert len(set(FOUND)) == len(FOUND)


def test_control_may_write_commands_only() -> None:
    written = {name for kind, name, operation in of("control", allow=True) if operation == "write"}
    assert written == {"commands"}


def test_only_the_gateway_may_write_schemas() -> None:
    for part in ("reducers", "publisher"):
        assert ("topic", "schemas", "write") in of(part, allow=False)
    assert ("transactional-id", "schemas.writer", "write") in of("gateway", allow=True)


def test_only_reducers_may_delete_topics_and_only_their_own() -> None:
    deletes = [one for one in FOUND if one.operation == "delete"]
    assert [(one.principal, one.name, one.prefixed) for one in deletes] == [
        ("User:distributary-reducers", "distributary.rekeyed.", True)
    ]
