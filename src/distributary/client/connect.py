"""Makes librdkafka's clients from a configuration, and looks topics up through them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from distributary.client.configuration import Configuration
from distributary.client.kafka_failures import Trouble, named, waits
from distributary.errors import ConfigError
from distributary.kafka import availability
from distributary.kafka.client_properties import PROPERTIES
from distributary.kafka.librdkafka import librdkafka, quiet

Handle = TypeVar("Handle", Producer, Consumer)

SLICE = 0.1
"""How long a call may stay inside librdkafka, in seconds: there, Ctrl-C is not heard."""

TOPIC_WAIT = 1.0
"""A topic that is being created, or that the broker creates when asked for, may be this late."""

_ABOUT = re.compile(r'configuration property "([^"]+)"|`([a-z.]+)`')
_ALIASES = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}
"""Names by which librdkafka speaks of properties that were given under Java's."""

_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


def connect(kind: type[Handle], config: Configuration, trouble: Trouble, **callbacks: Any) -> Handle:
    """Make a client; it connects by itself. Raises `ConfigError` for a value that librdkafka refuses."""
    # With a logger its fatal errors are not printed either; they are raised anyway.
    told = {**quiet(), "logger": librdkafka}
    final: dict[str, Any] = {**told, **config.librdkafka, **callbacks, "error_cb": trouble}
    try:
        return kind(final)
    except KafkaException as error:
        text = error.args[0].str()
        about = _ABOUT.search(text)
        name = next(filter(None, about.groups()), "") if about else ""
        java = next((row.name for row in PROPERTIES.values() if row.to == name), name)
        java = _ALIASES.get(java, java)
        place = f"Properties.{java}" if java else "Properties"
        for alias, known in _ALIASES.items():
            text = text.replace(alias, known)
        raise ConfigError(f"{config.place}: {place}: {text}") from None


def count_partitions(
    handle: Producer | Consumer,
    topic: str,
    what: str,
    config: Configuration,
    trouble: Trouble,
    limit: float,
    serve: Callable[[], object] = lambda: None,
) -> int:
    """How many partitions a topic has (for "", only that Kafka answers); waits up to ``limit`` seconds.

    ``what`` is being done, for messages; ``serve`` brings ``trouble`` what was heard. Raises `TopicMissing`,
    `KafkaUnavailable` with the address and the reason, or `KafkaRefused`.
    """
    began = time.monotonic()
    while True:
        spent = time.monotonic() - began
        serve()
        if refused := trouble.refused(what, config.servers):
            raise refused
        try:
            seen = handle.list_topics(**({"topic": topic} if topic else {}), timeout=SLICE * 3)
        except KafkaException as error:
            if not waits(error.args[0]):
                raise named(error.args[0], what, config.servers) from None
            if spent >= limit:
                wants = availability.look(config.servers, config.librdkafka.get("security.protocol"))
                raise trouble.away(what, config.servers, limit, wants) from None
            continue
        if not topic:
            return 0
        found = seen.topics[topic]
        if found.error is None and found.partitions:
            return len(found.partitions)
        missing = found.error is None or found.error.code() in _MISSING
        if (not missing and not waits(found.error)) or spent >= min(limit, TOPIC_WAIT if missing else limit):
            raise named(found.error or KafkaError(_MISSING[0]), what, config.servers)
        time.sleep(0.05)
