"""Settings of topics, brokers and groups: read those in force, and change them."""

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
from distributary.kafka import librdkafka
from distributary.kafka.admin import Cluster
from distributary.kafka.kafka_errors import admin_error

KINDS: Mapping[str, Any] = {
    "topic": ConfigResource.Type.TOPIC,
    "broker": ConfigResource.Type.BROKER,
    "group": ConfigResource.Type.GROUP,
}


class ConfigValue(NamedTuple):
    """A setting in force. ``source`` is where it was set; brokers do not show a ``sensitive`` value.

    ``own`` is true if it was set for this very topic, broker or group, not for example for a topic's broker.
    """

    name: str
    value: str | None
    source: str
    sensitive: bool
    read_only: bool
    own: bool


def describe_config(cluster: Cluster, kind: str, name: str) -> list[ConfigValue]:
    """The settings in force of a topic, a broker (its id) or a group, by name."""
    if kind == "broker" and not name.isdigit():
        raise UsageError(f"broker {name!r} is not a broker id", hint="As in: broker 101")
    resource = ConfigResource(KINDS[kind], name)
    futures = cluster.admin.describe_configs([resource], request_timeout=librdkafka.REQUEST_LIMIT)
    rows = cluster.wait(futures[resource], f"the settings of {kind} {name}")
    return [_value(row, kind) for row in sorted(rows.values(), key=lambda row: str(row.name))]


def alter_config(
    cluster: Cluster,
    kind: str,
    name: str,
    values: Mapping[str, str],
    reset: Iterable[str] = (),
    *,
    validate_only: bool = False,
) -> None:
    """Change some settings and reset others to their defaults; the rest stay as they are."""
    changes = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()
    ]
    changes += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in reset]
    resource = ConfigResource(KINDS[kind], name, incremental_configs=changes)
    futures = cluster.admin.incremental_alter_configs(
        [resource], validate_only=validate_only, request_timeout=librdkafka.REQUEST_LIMIT
    )
    try:
        futures[resource].result(librdkafka.REQUEST_LIMIT + 5)
    except KafkaException as error:
        names = [*values, *reset]
        raise settings_error(cluster, error, f"the settings of {kind} {name}", names, kind) from None


def settings_error(
    cluster: Cluster, error: KafkaException, what: str, names: Iterable[str], kind: str = "topic"
) -> Exception:
    """The error for refused settings; an unknown name is reported with the nearest known one."""
    if error.args[0].code() == KafkaError.INVALID_CONFIG:
        known = known_settings(cluster, kind)
        for name in names:
            if known and name not in known:
                near = nearest(name, known)
                hint = f'Did you mean "{near}"?' if near else "List them with: distributary configs describe"
                return KafkaRefused(f'{what}: unknown setting "{name}"', hint=hint)
    return admin_error(error, what, cluster.servers)


def known_settings(cluster: Cluster, kind: str = "topic") -> list[str]:
    """The names of all topic settings, read from an existing topic; empty if there is none."""
    if kind != "topic":
        return []
    names = sorted(cluster.admin.list_topics(timeout=librdkafka.REQUEST_LIMIT).topics)
    topics = [name for name in names if not name.startswith("__")] or names
    return [row.name for row in describe_config(cluster, "topic", topics[0])] if topics else []


def _value(row: Any, kind: str) -> ConfigValue:
    source = ConfigSource(row.source).name.lower().removesuffix("_config").replace("_", "-")
    return ConfigValue(
        name=row.name,
        value=row.value,
        source=source,
        sensitive=bool(row.is_sensitive),
        read_only=bool(row.is_read_only),
        own=source in (f"dynamic-{kind}", kind),
    )
