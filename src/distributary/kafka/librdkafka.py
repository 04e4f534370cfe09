"""librdkafka's clients, created from the configuration, whose properties have the Java client's names.

A name that only the Java client knows is translated if librdkafka has an equivalent, else ignored with a
reason in the log; it never stops a client from being created. librdkafka itself writes nothing to standard
error: its messages go to the logger ``distributary.librdkafka``, at level DEBUG.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from distributary.config.coerce import Faults
from distributary.config.problems import Problems
from distributary.config.sections import Kafka
from distributary.kafka.property_translation import translate

log = logging.getLogger(__name__)
librdkafka = logging.getLogger("distributary.librdkafka")
librdkafka.addHandler(logging.NullHandler())

REQUEST_LIMIT = 20.0
"""How long one request about topics, groups or settings may take, in seconds."""

Properties = dict[str, Any]
Client = TypeVar("Client", AdminClient, Consumer, Producer)

_UNKNOWN = re.compile(r'No such configuration property: "([^"]+)"')


def properties(kafka: Kafka, **more: Any) -> Properties:
    """The librdkafka properties of the configured cluster; ``more`` has ``_`` for ``.`` and wins."""
    chosen = translate_properties(kafka.properties)
    chosen["bootstrap.servers"] = kafka.bootstrap_servers
    chosen.update({name.replace("_", "."): value for name, value in more.items()})
    return chosen


def translate_properties(java: Mapping[str, str]) -> Properties:
    """Translate the Java client's properties into librdkafka's; log what is left out and why."""
    try:
        found = translate(java)
    except Faults as faults:
        problems = Problems()
        for name, message in faults.entries:
            problems.add(message, key=f"kafka.properties.{name}")
        problems.finish()
        raise  # not reached: there is a fault
    for level, line in found.messages:
        log.log(level, line)
    return dict(found.librdkafka)


def admin(kafka: Kafka, on_error: Callable[[KafkaError], None] | None = None) -> AdminClient:
    """A client for topics and offsets. ``on_error`` receives why brokers cannot be reached."""
    return create(AdminClient, properties(kafka), on_error)


def producer(kafka: Kafka, **more: Any) -> Producer:
    """A producer that duplicates nothing and loses nothing that was acknowledged."""
    return create(Producer, properties(kafka, acks="all", enable_idempotence=True, **more))


def consumer(kafka: Kafka, group: str, **more: Any) -> Consumer:
    """A consumer of committed records that commits nothing by itself."""
    fixed = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
    return create(Consumer, {**properties(kafka, **more), **fixed})


def uncommitted_consumer(kafka: Kafka, group: str, **more: Any) -> Consumer:
    """A consumer of the whole log, uncommitted records included, to see what exists; never to fold it."""
    fixed = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    return create(Consumer, {**properties(kafka, **more), **fixed})


def create(
    kind: type[Client], chosen: Properties, on_error: Callable[[KafkaError], None] | None = None
) -> Client:
    """Create a client, leaving out (with a warning) the properties that librdkafka does not know."""
    chosen = dict(chosen)

    def report(error: KafkaError) -> None:
        librdkafka.debug("%s", error)
        if on_error is not None:
            on_error(error)

    while True:
        try:
            final: dict[str, Any] = {**chosen, **quiet(), "error_cb": report}
            return kind(final)
        except KafkaException as error:
            unknown = _UNKNOWN.search(str(error))
            if unknown is None or unknown[1] not in chosen:
                raise
            log.warning("kafka property %s is ignored: librdkafka does not know it", unknown[1])
            del chosen[unknown[1]]


def serve(call: Callable[[float], int], seconds: float) -> int:
    """Poll or flush a client; a fatal error is raised as a KafkaException.

    While it flushes, confluent-kafka goes on calling callbacks with that exception pending, and its text is
    lost: poll first to get it.
    """
    try:
        return call(seconds)
    except SystemError:
        raise KafkaException(KafkaError(KafkaError._FATAL, "Fatal error", fatal=True)) from None


def quiet() -> Properties:
    """The properties that keep librdkafka's messages off standard error."""
    # Messages for a logger are queued until the client is polled, and an unpolled client would pile them up:
    # so they are turned off at the source unless the logger is enabled.
    if librdkafka.isEnabledFor(logging.DEBUG):
        return {"logger": librdkafka}
    return {"log_level": 0}
