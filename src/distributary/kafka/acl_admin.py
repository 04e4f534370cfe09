"""Access control lists: who may do what with which topics and groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its exports are not declared
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from distributary.config.problems import nearest
from distributary.errors import KafkaRefused, UsageError
from distributary.kafka import config_admin, kafka_errors
from distributary.kafka.admin import Cluster

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
"""The one name that the kind ``cluster`` has."""


class Acl(NamedTuple):
    """One line of a list; ``prefixed`` when the name stands for all that begin with it."""

    kind: str
    name: str
    principal: str
    operation: str
    host: str = "*"
    allow: bool = True
    prefixed: bool = False


class Wanted(NamedTuple):
    """Which lines: what is None may be anything."""

    kind: str | None = None
    name: str | None = None
    principal: str | None = None
    operation: str | None = None
    host: str | None = None
    allow: bool | None = None
    prefixed: bool | None = None


def listing(cluster: Cluster, wanted: Wanted) -> list[Acl]:
    """The lines that are wanted, sorted."""
    asked = cluster.admin.describe_acls(_filter(wanted), request_timeout=kafka_errors.LIMIT)
    found = sorted(map(_acl, cluster.ask(asked, "the ACLs")))
    if not found:
        _check_authorizer(cluster)
    return found


def add(cluster: Cluster, acls: Iterable[Acl]) -> None:
    """Add lines; one that is there already stays."""
    asked = cluster.admin.create_acls([_binding(one) for one in acls], request_timeout=kafka_errors.LIMIT)
    for binding, future in asked.items():
        cluster.ask(future, f"the ACL of {binding.principal} on {binding.name}")


def remove(cluster: Cluster, wanted: Wanted) -> list[Acl]:
    """Take the wanted lines away and give them."""
    chosen = _filter(wanted)
    asked = cluster.admin.delete_acls([chosen], request_timeout=kafka_errors.LIMIT)
    return sorted(map(_acl, cluster.ask(asked[chosen], "the ACLs")))


def operation(text: str) -> str:
    """Read an operation as Kafka's tools or we write it (Read, DescribeConfigs, describe-configs)."""
    plain = text.replace("-", "").replace("_", "").lower()
    for name in OPERATIONS:
        if name.replace("-", "") == plain:
            return name
    near = nearest(text.lower(), OPERATIONS)
    hint = f'Did you mean "{near}"?' if near else f"There are: {', '.join(OPERATIONS)}"
    raise UsageError(f'there is no operation "{text}"', hint=hint)


def principal(text: str) -> str:
    """Check a principal: Kafka writes them KIND:NAME."""
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise UsageError(f"{text!r} is no principal", hint="As in: User:ann")
    return text


def _check_authorizer(cluster: Cluster) -> None:
    """Raise KafkaRefused where the brokers keep no lists or do not show them: librdkafka gives none then."""
    may = cluster.ask(
        cluster.admin.describe_cluster(
            include_authorized_operations=True, request_timeout=kafka_errors.LIMIT
        ),
        "the cluster",
    ).authorized_operations
    if AclOperation.DESCRIBE not in (may or []):
        denied = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        raise kafka_errors.named(denied, "the ACLs", cluster.servers)
    broker = min(cluster.admin.list_topics(timeout=kafka_errors.LIMIT).brokers)
    try:
        settings = {one.name: one.value for one in config_admin.describe(cluster, "broker", str(broker))}
    except KafkaRefused:  # who may not read settings is not told by them
        return
    if not settings.get("authorizer.class.name", "unknown"):
        none = KafkaError(KafkaError.SECURITY_DISABLED, "No Authorizer is configured")
        raise kafka_errors.named(none, "the ACLs", cluster.servers)


def _binding(one: Acl) -> Any:
    return AclBinding(
        KINDS[one.kind],
        one.name,
        ResourcePatternType.PREFIXED if one.prefixed else ResourcePatternType.LITERAL,
        one.principal,
        one.host,
        AclOperation[one.operation.upper().replace("-", "_")],
        AclPermissionType.ALLOW if one.allow else AclPermissionType.DENY,
    )


def _filter(one: Wanted) -> Any:
    pattern = {
        None: ResourcePatternType.ANY,
        True: ResourcePatternType.PREFIXED,
        False: ResourcePatternType.LITERAL,
    }
    permission = {None: AclPermissionType.ANY, True: AclPermissionType.ALLOW, False: AclPermissionType.DENY}
    operation = AclOperation[one.operation.upper().replace("-", "_")] if one.operation else AclOperation.ANY
    chosen: Any = AclBindingFilter  # its types do not say that names may be None
    return chosen(
        KINDS[one.kind] if one.kind else ResourceType.ANY,
        one.name,
        pattern[one.prefixed],
        one.principal,
        one.host,
        operation,
        permission[one.allow],
    )


def _acl(binding: Any) -> Acl:
    kinds = {kind: name for name, kind in KINDS.items()}
    return Acl(
        kinds.get(binding.restype, binding.restype.name.lower()),
        binding.name,
        binding.principal,
        binding.operation.name.lower().replace("_", "-"),
        binding.host,
        binding.permission_type == AclPermissionType.ALLOW,
        binding.resource_pattern_type == ResourcePatternType.PREFIXED,
    )
