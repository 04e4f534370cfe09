"""Make librdkafka clients from the configuration, whose properties bear the names of the Java client.

A name that only the Java client knows is translated where there is a like one, else ignored with a reason
in the log; it never stops a client from being made. librdkafka itself writes nothing to standard error:
what it has to say goes to the logger ``distributary.librdkafka``, at level DEBUG.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from distributary.config.sections import Kafka

log = logging.getLogger(__name__)
librdkafka = logging.getLogger("distributary.librdkafka")
librdkafka.addHandler(logging.NullHandler())

Properties = dict[str, Any]
Client = TypeVar("Client", AdminClient, Consumer, Producer)

_JAVA_ONLY = re.compile(
    r"(key|value)\.(de)?serializer|partitioner\.class|producer\.type|interceptor\.classes|metric\.reporters"
    r"|metrics\..*|max\.poll\.records|buffer\.memory|max\.block\.ms|default\.api\.timeout\.ms|client\.dns\.lookup"
    r"|ssl\.(protocol|provider|trustmanager\.algorithm|keymanager\.algorithm|secure\.random\.implementation)"
    r"|ssl\.(keystore|truststore)\.type|ssl\.truststore\.password|security\.providers"
    r"|sasl\.(client\.callback\.handler|login\.class|login\.callback\.handler)\S*"
)
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_JAAS = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))")
_UNKNOWN = re.compile(r'No such configuration property: "([^"]+)"')


def properties(kafka: Kafka, **more: Any) -> Properties:
    """The librdkafka properties of the configured cluster; ``more`` has ``_`` for ``.`` and wins."""
    chosen = translate(kafka.properties)
    chosen["bootstrap.servers"] = kafka.bootstrap_servers
    chosen.update({name.replace("_", "."): value for name, value in more.items()})
    return chosen


def translate(java: Mapping[str, str]) -> Properties:
    """Turn the Java client's properties into librdkafka's; log what is left out and why."""
    chosen: Properties = {}
    for name, value in java.items():
        if name == "sasl.jaas.config":
            chosen.update(_credentials(value))
        elif name == "ssl.truststore.location":
            if java.get("ssl.truststore.type", "PEM").upper() == "PEM":
                chosen["ssl.ca.location"] = value
            else:
                log.warning("kafka property %s is ignored: only PEM trust stores are read here", name)
        elif name in _RENAMED:
            chosen[_RENAMED[name]] = value
        elif name == "ssl.endpoint.identification.algorithm":
            chosen[name] = value or "none"
        elif _JAVA_ONLY.fullmatch(name):
            log.info("kafka property %s is ignored: only the Java client has it", name)
        else:
            chosen[name] = value
    return chosen


def admin(kafka: Kafka, on_error: Callable[[str], None] | None = None) -> AdminClient:
    """A client for topics and offsets. ``on_error`` hears why brokers cannot be reached."""
    return make(AdminClient, properties(kafka), on_error)


def producer(kafka: Kafka, **more: Any) -> Producer:
    """A producer that repeats nothing and loses nothing that it acknowledged."""
    return make(Producer, properties(kafka, acks="all", enable_idempotence=True, **more))


def consumer(kafka: Kafka, group: str, **more: Any) -> Consumer:
    """A consumer of committed records that commits nothing by itself."""
    fixed = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
    return make(Consumer, {**properties(kafka, **more), **fixed})


def make(kind: type[Client], chosen: Properties, on_error: Callable[[str], None] | None = None) -> Client:
    """Make a client, leaving out (with a warning) the properties that librdkafka does not know."""
    chosen = dict(chosen)

    def heard(error: KafkaError) -> None:
        librdkafka.debug("%s", error)
        if on_error is not None:
            on_error(error.str())

    while True:
        try:
            final: dict[str, Any] = {**chosen, **_quiet(), "error_cb": heard}
            return kind(final)
        except KafkaException as error:
            unknown = _UNKNOWN.search(str(error))
            if unknown is None or unknown[1] not in chosen:
                raise
            log.warning("kafka property %s is ignored: librdkafka does not know it", unknown[1])
            del chosen[unknown[1]]


def _quiet() -> Properties:
    # A logger only hears what poll() brings it, and an unpolled client would pile it up: so nothing is
    # said at the source unless somebody listens.
    if librdkafka.isEnabledFor(logging.DEBUG):
        return {"logger": librdkafka}
    return {"log_level": 0}


def _credentials(jaas: str) -> Properties:
    found = {name: a or b or c for name, a, b, c in _JAAS.findall(jaas)}
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", value) for name, value in found.items()}
