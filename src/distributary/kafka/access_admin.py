"""Who may do what: access control lists, and SCRAM users with their passwords."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its exports are not declared
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
)
from confluent_kafka.admin import UserScramCredentialDeletion as ScramDeletion  # type: ignore[attr-defined]
from confluent_kafka.admin import UserScramCredentialUpsertion as ScramUpsertion  # type: ignore[attr-defined]

from distributary.config.problems import nearest
from distributary.errors import KafkaRefused, UsageError
from distributary.kafka import config_admin, librdkafka
from distributary.kafka.admin import Cluster
from distributary.kafka.kafka_errors import admin_error

OPERATIONS = tuple(
    one.name.lower().replace("_", "-") for one in AclOperation if one.name not in ("UNKNOWN", "ANY")
)
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
CLUSTER = "kafka-cluster"
"""The only name of a resource of the kind ``cluster``."""


class Acl(NamedTuple):
    """An entry; with ``prefixed`` it applies to all names that begin with ``name``."""

    kind: str
    name: str
    principal: str
    operation: str
    host: str = "*"
    allow: bool = True
    prefixed: bool = False


class AclFilter(NamedTuple):
    """Which entries to select: a field that is None matches anything."""

    kind: str | None = None
    name: str | None = None
    principal: str | None = None
    operation: str | None = None
    host: str | None = None
    allow: bool | None = None
    prefixed: bool | None = None


def list_acls(cluster: Cluster, chosen: AclFilter) -> list[Acl]:
    """The entries that match a filter, sorted. Raises KafkaRefused if the brokers have no authorizer."""
    future = cluster.admin.describe_acls(_filter(chosen), request_timeout=librdkafka.REQUEST_LIMIT)
    found = sorted(map(_acl, cluster.wait(future, "the ACLs")))
    if not found:
        _check_authorizer(cluster)
    return found


def add_acls(cluster: Cluster, acls: Iterable[Acl]) -> None:
    """Add entries; existing ones stay."""
    bindings = [_binding(one) for one in acls]
    futures = cluster.admin.create_acls(bindings, request_timeout=librdkafka.REQUEST_LIMIT)
    for binding, future in futures.items():
        cluster.wait(future, f"the ACL of {binding.principal} on {binding.name}")


def remove_acls(cluster: Cluster, chosen: AclFilter) -> list[Acl]:
    """Remove the entries that match a filter; return them."""
    filter = _filter(chosen)
    futures = cluster.admin.delete_acls([filter], request_timeout=librdkafka.REQUEST_LIMIT)
    return sorted(map(_acl, cluster.wait(futures[filter], "the ACLs")))


def parse_operation(text: str) -> str:
    """Parse an operation as Kafka's tools write it or as we do (Read, DescribeConfigs, describe-configs)."""
    plain = text.replace("-", "").replace("_", "").lower()
    for name in OPERATIONS:
        if name.replace("-", "") == plain:
            return name
    near = nearest(text.lower(), OPERATIONS)
    hint = f'Did you mean "{near}"?' if near else f"There are: {', '.join(OPERATIONS)}"
    raise UsageError(f'unknown operation "{text}"', hint=hint)


def check_principal(text: str) -> str:
    """Return a principal if it has Kafka's form, KIND:NAME; else raise UsageError."""
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise UsageError(f"{text!r} is not a principal", hint="As in: User:ann")
    return text


def _check_authorizer(cluster: Cluster) -> None:
    """Raise if the list is empty for lack of an authorizer or of permission, which librdkafka hides."""
    limit = librdkafka.REQUEST_LIMIT
    operations = cluster.wait(
        cluster.admin.describe_cluster(include_authorized_operations=True, request_timeout=limit),
        "the cluster",
    ).authorized_operations
    if AclOperation.DESCRIBE not in (operations or []):
        denied = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        raise admin_error(denied, "the ACLs", cluster.servers)
    broker = min(cluster.admin.list_topics(timeout=limit).brokers)
    try:
        rows = config_admin.describe_config(cluster, "broker", str(broker))
    except KafkaRefused:  # settings may be hidden from a user who may list ACLs
        return
    if not {one.name: one.value for one in rows}.get("authorizer.class.name", "unknown"):
        disabled = KafkaError(KafkaError.SECURITY_DISABLED, "No Authorizer is configured")
        raise admin_error(disabled, "the ACLs", cluster.servers)


def _binding(one: Acl) -> Any:
    return AclBinding(
        restype=KINDS[one.kind],
        name=one.name,
        resource_pattern_type=ResourcePatternType.PREFIXED if one.prefixed else ResourcePatternType.LITERAL,
        principal=one.principal,
        host=one.host,
        operation=AclOperation[one.operation.upper().replace("-", "_")],
        permission_type=AclPermissionType.ALLOW if one.allow else AclPermissionType.DENY,
    )


def _filter(one: AclFilter) -> Any:
    pattern = {
        None: ResourcePatternType.ANY,
        True: ResourcePatternType.PREFIXED,
        False: ResourcePatternType.LITERAL,
    }
    permission = {None: AclPermissionType.ANY, True: AclPermissionType.ALLOW, False: AclPermissionType.DENY}
    operation = AclOperation[one.operation.upper().replace("-", "_")] if one.operation else AclOperation.ANY
    chosen: Any = AclBindingFilter  # its annotations exclude None
    return chosen(
        restype=KINDS[one.kind] if one.kind else ResourceType.ANY,
        name=one.name,
        resource_pattern_type=pattern[one.prefixed],
        principal=one.principal,
        host=one.host,
        operation=operation,
        permission_type=permission[one.allow],
    )


def _acl(binding: Any) -> Acl:
    kinds = {kind: name for name, kind in KINDS.items()}
    return Acl(
        kind=kinds.get(binding.restype, binding.restype.name.lower()),
        name=binding.name,
        principal=binding.principal,
        operation=binding.operation.name.lower().replace("_", "-"),
        host=binding.host,
        allow=binding.permission_type == AclPermissionType.ALLOW,
        prefixed=binding.resource_pattern_type == ResourcePatternType.PREFIXED,
    )


# --- users ------------------------------------------------------------------------------------------------

MECHANISMS = {
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
}
ITERATIONS = 8192
"""How many times a password is hashed by default."""
ITERATION_LIMITS = range(4096, 16_385)
"""What Kafka accepts."""


class ScramUser(NamedTuple):
    """A credential of a user, who has at most one for each mechanism. Kafka stores it salted and hashed."""

    name: str
    mechanism: str
    iterations: int


def list_users(cluster: Cluster, names: Iterable[str] = ()) -> list[ScramUser]:
    """The credentials of these users, or of all, sorted; names without one are left out."""
    requested = list(dict.fromkeys(names))
    limit = librdkafka.REQUEST_LIMIT
    future: Any = cluster.admin.describe_user_scram_credentials(requested or None, request_timeout=limit)
    if not requested:
        found = cluster.wait(future, "the users").values()
    else:
        found = [one for name in requested if (one := _described(cluster, future[name], name)) is not None]
    kinds = {kind: name for name, kind in MECHANISMS.items()}
    return sorted(
        ScramUser(one.user, kinds.get(info.mechanism, "unknown"), info.iterations)
        for one in found
        for info in one.scram_credential_infos
    )


def set_passwords(
    cluster: Cluster,
    passwords: Mapping[str, str],
    mechanism: str = "SCRAM-SHA-512",
    iterations: int = ITERATIONS,
) -> None:
    """Set the password of each user; it replaces one that the user had."""
    info = ScramCredentialInfo(MECHANISMS[mechanism], iterations)
    _alter_users(
        cluster,
        [ScramUpsertion(name, info, password.encode()) for name, password in passwords.items()],
    )


def delete_credentials(cluster: Cluster, users: Iterable[ScramUser]) -> None:
    """Delete credentials. Open connections stay open until they authenticate again."""
    for one in users:
        _alter_users(cluster, [ScramDeletion(one.name, MECHANISMS[one.mechanism])])


def _alter_users(cluster: Cluster, changes: list[Any]) -> None:
    futures = cluster.admin.alter_user_scram_credentials(changes, request_timeout=librdkafka.REQUEST_LIMIT)
    for name, future in futures.items():
        cluster.wait(future, f"user {name}")


def _described(cluster: Cluster, future: Any, name: str) -> Any:
    try:
        return future.result(librdkafka.REQUEST_LIMIT + 1)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.RESOURCE_NOT_FOUND:
            return None
        raise admin_error(error, f"user {name}", cluster.servers) from None
