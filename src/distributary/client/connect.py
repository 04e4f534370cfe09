"""Makes librdkafka's clients from a configuration, and looks topics up through them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from distributary.client.configuration import Configuration
from distributary.errors import ConfigError, DistributaryError, KafkaRefused, KafkaUnavailable
from distributary.kafka.admin import probe_ports
from distributary.kafka.client_properties import PROPERTIES
from distributary.kafka.kafka_errors import (
    CLIENT_UNREACHABLE_HINT,
    MISSING_TOPIC,
    client_error,
    is_refusal,
    recovers_by_itself,
)
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


def connect(
    kind: type[Handle], config: Configuration, background: BackgroundErrors, **callbacks: Any
) -> Handle:
    """Make a client; it connects by itself. Raises `ConfigError` for a value that librdkafka refuses."""
    # With a logger its fatal errors are not printed either; they are raised anyway.
    told = {**quiet(), "logger": librdkafka}
    final: dict[str, Any] = {**told, **config.librdkafka, **callbacks, "error_cb": background}
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
    background: BackgroundErrors,
    limit: float,
    serve: Callable[[], object] = lambda: None,
) -> int:
    """A topic's number of partitions (for "" only check that Kafka answers); waits up to ``limit`` seconds.

    ``what`` is being done, for messages; ``serve`` makes librdkafka report to ``background``. Raises
    `TopicMissing`, `KafkaUnavailable` with the address and the reason, or `KafkaRefused`.
    """
    began = time.monotonic()
    while True:
        spent = time.monotonic() - began
        serve()
        if refused := background.refusal(what, config.servers):
            raise refused
        try:
            seen = handle.list_topics(**({"topic": topic} if topic else {}), timeout=SLICE * 3)
        except KafkaException as error:
            if not recovers_by_itself(error.args[0]):
                raise client_error(error.args[0], what, config.servers) from None
            if spent >= limit:
                mismatch = probe_ports(config.servers, config.librdkafka.get("security.protocol"))
                raise background.no_answer(what, config.servers, limit, mismatch) from None
            continue
        if not topic:
            return 0
        found = seen.topics[topic]
        if found.error is None and found.partitions:
            return len(found.partitions)
        missing = found.error is None or found.error.code() in MISSING_TOPIC
        if (not missing and not recovers_by_itself(found.error)) or spent >= min(
            limit, TOPIC_WAIT if missing else limit
        ):
            raise client_error(
                found.error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), what, config.servers
            )
        time.sleep(0.05)


class BackgroundErrors:
    """The errors that a client meets between calls, so that the next call can say why it waits in vain.

    Called by librdkafka with one error after another.
    """

    def __init__(self) -> None:
        self._refusal: KafkaError | None = None
        self._last = ""

    def __call__(self, error: KafkaError) -> None:
        """Remember an error."""
        if is_refusal(error):
            self._refusal = error
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last:  # that one only sums up others
            self._last = error.str()

    def refusal(self, what: str, servers: str) -> DistributaryError | None:
        """The error that waiting does not help against, if there was one."""
        return None if self._refusal is None else client_error(self._refusal, what, servers)

    def no_answer(self, what: str, servers: str, seconds: float, mismatch: str = "") -> DistributaryError:
        """The error for no answer in time, with the last one that was met.

        ``mismatch`` is what `distributary.kafka.admin.probe_ports` found, if anything.
        """
        if mismatch:
            return KafkaRefused(
                f"{what} failed at Kafka {servers}: {mismatch}",
                hint="Set security.protocol to what that port speaks, and sasl.* if it requires a password",
            )
        return KafkaUnavailable(
            f"{what} failed: Kafka {servers} did not answer within {seconds:g} s "
            f"({self._last or 'no error was reported'})",
            hint=CLIENT_UNREACHABLE_HINT,
        )
