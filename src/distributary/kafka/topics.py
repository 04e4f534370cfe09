"""Topics by name: find, create, wait for and delete them. Blocking calls, each with a time limit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its exports are not declared
    AdminClient,
    ConfigResource,
    NewTopic,
)

from distributary.errors import TopicError, TopicMissing
from distributary.kafka import librdkafka
from distributary.kafka.kafka_errors import MISSING_TOPIC, topic_error

PartitionId = tuple[str, int]
"""A topic and one of its partitions."""

LEADER_LIMIT = 5.0
"""How long a partition that was just created or moved may be without a leader, in seconds."""


class Topic(NamedTuple):
    """A topic. Its ``id`` tells it from another topic that had or will have the same name."""

    name: str
    id: str
    partitions: int


def ensure_topic(
    admin: AdminClient, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> Topic:
    """Return the topic; create it if it does not exist. An existing topic is left as it is.

    ``config`` has the topic's settings under Kafka's names. The replication is the cluster's default.
    """
    found = find_topic(admin, name)
    if found is not None:
        return found
    topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config or {}))
    try:
        admin.create_topics(
            [topic], request_timeout=librdkafka.REQUEST_LIMIT, operation_timeout=librdkafka.REQUEST_LIMIT
        )[name].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise topic_error(error, f"cannot create topic {name}") from None
    return wait_for_topic(admin, name)


def wait_for_topic(admin: AdminClient, name: str, partitions: int = 1) -> Topic:
    """Wait until a topic that was just created or changed has this many partitions, and leaders for them.

    Brokers answer from metadata that lag behind the controller's. A partition whose brokers are all down is
    not waited for.
    """
    began = time.monotonic()
    while True:
        description, waited = _describe(admin, name), time.monotonic() - began
        if description is not None and len(description.partitions) >= partitions:
            if all(one.leader is not None for one in description.partitions) or waited > LEADER_LIMIT:
                return _topic(description)
        elif waited > librdkafka.REQUEST_LIMIT:
            raise TopicError(f"topic {name} was created but is not visible yet", hint="Try again")
        time.sleep(0.02)


def replace_topic(
    admin: AdminClient, name: str, partitions: int, config: Mapping[str, str] | None = None
) -> Topic:
    """Return a new, empty topic of this name; one that exists is deleted first."""
    delete_topic(admin, name)
    return ensure_topic(admin, name, partitions, config)


def find_topic(admin: AdminClient, name: str) -> Topic | None:
    """Look a topic up; None if it does not exist."""
    description = _describe(admin, name)
    return None if description is None else _topic(description)


def get_topic(admin: AdminClient, name: str) -> Topic:
    """Look a topic up; raises `TopicMissing` if it does not exist."""
    found = find_topic(admin, name)
    if found is None:
        raise TopicMissing(
            f"there is no topic {name}",
            hint=f"Create it with: distributary topics create {name}; or set create = true in its feed",
        )
    return found


def list_topics(admin: AdminClient) -> list[str]:
    """The names of all topics except Kafka's internal ones, sorted."""
    try:
        names = admin.list_topics(timeout=librdkafka.REQUEST_LIMIT).topics
    except KafkaException as error:
        raise topic_error(error, "cannot list the topics") from None
    return sorted(name for name in names if not name.startswith("__"))


def topic_config(admin: AdminClient, name: str) -> dict[str, str]:
    """The settings in force for a topic, under Kafka's names."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    try:
        rows = admin.describe_configs([resource], request_timeout=librdkafka.REQUEST_LIMIT)[resource].result()
    except KafkaException as error:
        raise topic_error(error, f"cannot read the settings of topic {name}") from None
    return {key: str(row.value) for key, row in rows.items()}


def is_compacted(admin: AdminClient, name: str) -> bool:
    """Whether a topic's records may be removed because later ones have the same key."""
    return "compact" in topic_config(admin, name).get("cleanup.policy", "")


def delete_topic(admin: AdminClient, name: str) -> None:
    """Delete a topic with its records and wait until it is gone; does nothing if it does not exist.

    Brokers answer from metadata that lag behind the controller's: without the wait, `ensure_topic` could
    return the topic that was just deleted.
    """
    old = find_topic(admin, name)
    if old is None:
        return
    try:
        admin.delete_topics(
            [name], request_timeout=librdkafka.REQUEST_LIMIT, operation_timeout=librdkafka.REQUEST_LIMIT
        )[name].result()
    except KafkaException as error:
        if error.args[0].code() not in MISSING_TOPIC:
            raise topic_error(error, f"cannot delete topic {name}") from None
    deadline = time.monotonic() + librdkafka.REQUEST_LIMIT
    while (found := find_topic(admin, name)) is not None and found.id == old.id:
        if time.monotonic() > deadline:
            raise TopicError(f"topic {name} was deleted but is still visible", hint="Try again")
        time.sleep(0.02)


def _describe(admin: AdminClient, name: str) -> Any:
    try:
        futures = admin.describe_topics(TopicCollection([name]), request_timeout=librdkafka.REQUEST_LIMIT)
        return futures[name].result()
    except KafkaException as error:
        if error.args[0].code() in MISSING_TOPIC:
            return None
        raise topic_error(error, f"cannot describe topic {name}") from None


def _topic(description: Any) -> Topic:
    return Topic(str(description.name), str(description.topic_id), len(description.partitions))
