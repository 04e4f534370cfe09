"""Settings of topics, brokers and groups: what is in force, and changing some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its exports are not declared
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)

from distributary.config.problems import nearest
from distributary.errors import KafkaRefused, UsageError
from distributary.kafka import kafka_errors
from distributary.kafka.admin import Cluster
from distributary.kafka.topic_offsets import list_topics

KINDS: Mapping[str, Any] = {
    "topic": ConfigResource.Type.TOPIC,
    "broker": ConfigResource.Type.BROKER,
    "group": ConfigResource.Type.GROUP,
}


class Value(NamedTuple):
    """One setting in force. ``source`` says where it was set; a ``sensitive`` one is not shown by brokers.

    It is its ``own`` where it was set for this very topic, broker or group, and not for a topic's broker.
    """

    name: str
    value: str | None
    source: str
    sensitive: bool
    read_only: bool
    own: bool


def describe(cluster: Cluster, kind: str, name: str) -> list[Value]:
    """The settings in force of a topic, a broker (its id) or a group, by name."""
    if kind == "broker" and not name.isdigit():
        raise UsageError(f"broker {name!r}: a broker is named by its id", hint="As in: broker 101")
    resource = ConfigResource(KINDS[kind], name)
    asked = cluster.admin.describe_configs([resource], request_timeout=kafka_errors.LIMIT)
    rows = cluster.ask(asked[resource], f"the settings of {kind} {name}")
    return [_value(row, kind) for row in sorted(rows.values(), key=lambda row: str(row.name))]


def alter(
    cluster: Cluster,
    kind: str,
    name: str,
    values: Mapping[str, str],
    removed: Iterable[str] = (),
    *,
    validate_only: bool = False,
) -> None:
    """Set some settings and give others back to their defaults; the rest stay as they are."""
    changes = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()
    ]
    changes += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in removed]
    resource = ConfigResource(KINDS[kind], name, incremental_configs=changes)
    asked = cluster.admin.incremental_alter_configs(
        [resource], validate_only=validate_only, request_timeout=kafka_errors.LIMIT
    )
    try:
        asked[resource].result(kafka_errors.LIMIT + 5)
    except KafkaException as error:
        raise refused(cluster, error, f"the settings of {kind} {name}", [*values, *removed], kind) from None


def refused(
    cluster: Cluster, error: KafkaException, what: str, given: Iterable[str], kind: str = "topic"
) -> Exception:
    """Name a refusal; where a setting's name is unknown to the brokers, with the nearest that is known."""
    cause = error.args[0]
    if cause.code() == KafkaError.INVALID_CONFIG:
        known = known_names(cluster, kind)
        for name in given:
            if known and name not in known:
                near = nearest(name, known)
                hint = f'Did you mean "{near}"?' if near else "List them with: distributary configs describe"
                return KafkaRefused(f'{what}: there is no setting "{name}"', hint=hint)
    return kafka_errors.named(error, what, cluster.servers)


def known_names(cluster: Cluster, kind: str = "topic") -> list[str]:
    """The names of all settings of topics, learnt from one that is there; empty where there is none."""
    if kind != "topic":
        return []
    metadata = cluster.admin.list_topics(timeout=kafka_errors.LIMIT).topics
    found = list_topics(cluster.admin) or sorted(metadata)
    return [row.name for row in describe(cluster, "topic", found[0])] if found else []


def _value(row: Any, kind: str) -> Value:
    source = _source(row.source)
    sensitive, read_only = bool(row.is_sensitive), bool(row.is_read_only)
    return Value(row.name, row.value, source, sensitive, read_only, own=source in (f"dynamic-{kind}", kind))


def _source(number: int) -> str:
    return ConfigSource(number).name.lower().removesuffix("_config").replace("_", "-")
