"""Cases of the schema registry: see `field_cases`."""

from __future__ import annotations

import json

from tests.integration.gateway.field_cases import ODDS, Case, GatewayUnderTest, differ

OTHER_WORDS = json.dumps({"type": "record", "name": "book.Odds", "fields": []})


def lists(path: str, *names: str, more: str = "") -> dict[str, Case]:
    """Return the cases for parameters of a list: each changes the list. ``more`` is in both requests."""
    words = {"offset": "1", "limit": "1", "subjectPrefix": "a", "subject": ":.other:s"}
    return {
        name: differ(("GET", f"{path}?{more}"), ("GET", f"{path}?{more}&{name}={words.get(name, 'true')}"))
        for name in names
    }


def schema_fields(path: str, good: str, bad: str) -> dict[str, Case]:
    """Return the cases for the fields of a body with a schema: each changes the response."""
    body = {"schema": good}
    return {
        "schema": differ(("POST", path, body), ("POST", path, {"schema": bad})),
        "schemaType": differ(("POST", path, body), ("POST", path, {**body, "schemaType": "JSON"})),
        "references": differ(("POST", path, body), ("POST", path, {**body, "references": [{"name": "x"}]})),
    }


def found(path: str, schema: str) -> Case:
    """Create a case for ``normalize``: a schema with the meaning of a registered one is found."""

    async def run(gateway: GatewayUnderTest) -> None:
        reply = await gateway.request("POST", path, {"schema": schema})
        assert reply.status == 200, reply
        assert reply.body.get("is_compatible", True)

    return run


LOOKUP, TEST = "/subjects/rec", "/compatibility/subjects/strict/versions"

CASES: dict[str, dict[str, Case]] = {
    "registry.registry_routes.list_subjects": lists(
        "/subjects", "deleted", "deletedOnly", "deleted_only", "subjectPrefix", "offset", "limit"
    ),
    "registry.registry_routes.list_versions": lists(
        "/subjects/a/versions",
        "deleted",
        "deletedOnly",
        "deleted_only",
        "deletedAsNegative",
        "offset",
        "limit",
    ),
    "registry.registry_routes.show_version": lists("/subjects/a/versions/2", "deleted"),
    "registry.registry_routes.show_version_schema": lists("/subjects/a/versions/2/schema", "deleted"),
    "registry.registry_routes.referenced_by": lists(
        "/subjects/a/versions/1/referencedby", "deleted", "offset", "limit"
    ),
    "registry.registry_routes.look_up": {
        **schema_fields(LOOKUP, ODDS, '"int"'),
        "deleted": differ(
            ("POST", "/subjects/a", {"schema": '"string"'}),
            ("POST", "/subjects/a?deleted=true", {"schema": '"string"'}),
        ),
        "normalize": found(f"{LOOKUP}?normalize=true", OTHER_WORDS),
    },
    "registry.registry_routes.register": {
        **schema_fields("/subjects/{new}/versions", '{"type": "int"}', '"bytes"'),
        "normalize": differ(
            *(
                [
                    (
                        "POST",
                        f"/subjects/n-{flag}/versions?normalize={flag}",
                        {"schema": '{"type": "float"}'},
                    ),
                    ("GET", f"/subjects/n-{flag}/versions/1"),
                ]
                for flag in ("true", "false")
            ),
            pick=lambda body: body["schema"],
        ),
    },
    "registry.registry_routes.delete_subject": {
        "permanent": differ(("DELETE", "/subjects/b"), ("DELETE", "/subjects/b?permanent=true"))
    },
    "registry.registry_routes.delete_version": {
        "permanent": differ(
            ("DELETE", "/subjects/a/versions/2"), ("DELETE", "/subjects/a/versions/2?permanent=true")
        )
    },
    **{
        f"registry.compatibility_routes.{name}": {
            **schema_fields(TEST + end, '"int"', '"string"'),
            "verbose": differ(
                ("POST", TEST + end, {"schema": '"string"'}),
                ("POST", f"{TEST}{end}?verbose=true", {"schema": '"string"'}),
            ),
            "normalize": found(f"{TEST}{end}?normalize=true", '{"type": "int"}'),
        }
        for name, end in (("test_all", ""), ("test_one", "/latest"))
    },
    "registry.registry_routes.show_schema": lists("/schemas/ids/1", "subject"),
    "registry.registry_routes.show_schema_text": lists("/schemas/ids/1/schema", "subject"),
    "registry.registry_routes.list_subjects_of_schema": lists(
        "/schemas/ids/1/subjects", "subject", "deleted", "offset", "limit"
    ),
    "registry.registry_routes.list_versions_of_schema": lists(
        "/schemas/ids/1/versions", "subject", "deleted", "offset", "limit"
    ),
    "registry.compatibility_routes.show_compatibility": lists("/config/a", "defaultToGlobal"),
    "registry.compatibility_routes.show_mode": lists("/mode/a", "defaultToGlobal"),
    "registry.compatibility_routes.set_compatibility": {
        "compatibility": differ(
            *(
                [("PUT", "/config/c", {"compatibility": one}), ("GET", "/config/c")]
                for one in ("FULL", "NONE")
            )
        )
    },
}
