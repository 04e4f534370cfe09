"""One table of every property that a Kafka client can be given, and how it is handled here.

Names are the Java client's, with those that only librdkafka knows and those of our own client.
``tests/integration/client/test_java.py`` checks the table against the Java client itself,
``tests/unit/kafka/test_client_properties.py`` against librdkafka.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Side = Literal["producer", "consumer", "both"]
Kind = Literal["string", "integer", "number", "boolean", "list", "any"]


class Handling(enum.StrEnum):
    """What becomes of a property."""

    SAME = enum.auto()
    """It is passed to librdkafka as it is."""
    RENAMED = enum.auto()
    """It is passed to librdkafka under another name."""
    TRANSLATED = enum.auto()
    """It is passed to librdkafka with another value or as several properties."""
    OWN = enum.auto()
    """Our own client implements it."""
    IGNORED = enum.auto()
    """There is no equivalent here."""
    LIBRDKAFKA = enum.auto()
    """Only librdkafka knows it, not the Java client."""


@dataclass(frozen=True, slots=True)
class Property:
    """One property.

    ``to`` is its name in librdkafka if it is passed on unchanged; ``about`` is the reason, or what happens.
    An integer that is valid for Java but outside ``low`` to ``high``, librdkafka's limits, is set to the
    nearer limit; one below ``least`` is valid for neither.
    """

    name: str
    side: Side
    kind: Kind
    handling: Handling
    to: str = ""
    about: str = ""
    low: int | None = None
    high: int | None = None
    least: int = 0


_DAY = 86_400_000
_INT = 2_147_483_647

# name: (side, lowest and highest for librdkafka, its name there if another)
_INTEGERS: Mapping[str, tuple[Side, int, int, str]] = {
    "auto.commit.interval.ms": ("consumer", 0, _DAY, ""),
    "batch.size": ("producer", 1, _INT, ""),
    "connections.max.idle.ms": ("both", 0, _INT, ""),
    "delivery.timeout.ms": ("producer", 0, _INT, ""),
    "fetch.max.bytes": ("consumer", 0, 2_147_483_135, ""),
    "fetch.max.wait.ms": ("consumer", 0, 300_000, "fetch.wait.max.ms"),
    "fetch.min.bytes": ("consumer", 1, 100_000_000, ""),
    "heartbeat.interval.ms": ("consumer", 1, 3_600_000, ""),
    "linger.ms": ("producer", 0, 900_000, ""),
    "max.in.flight.requests.per.connection": ("producer", 1, 1_000_000, ""),
    "max.partition.fetch.bytes": ("consumer", 1, 1_000_000_000, ""),
    "max.poll.interval.ms": ("consumer", 1, _DAY, ""),
    "max.request.size": ("producer", 1000, 1_000_000_000, "message.max.bytes"),
    # librdkafka's property of that name is how long unused metadata are cached.
    "metadata.max.age.ms": ("both", 10, 3_600_000, "topic.metadata.refresh.interval.ms"),
    "receive.buffer.bytes": ("both", 0, 100_000_000, "socket.receive.buffer.bytes"),
    "reconnect.backoff.max.ms": ("both", 0, 3_600_000, ""),
    "reconnect.backoff.ms": ("both", 0, 3_600_000, ""),
    "retries": ("producer", 0, _INT, ""),
    "retry.backoff.max.ms": ("both", 1, 300_000, ""),
    "retry.backoff.ms": ("both", 1, 300_000, ""),
    "sasl.kerberos.min.time.before.relogin": ("both", 0, _DAY, ""),
    "send.buffer.bytes": ("both", 0, 100_000_000, "socket.send.buffer.bytes"),
    "session.timeout.ms": ("consumer", 1, 3_600_000, ""),
    "socket.connection.setup.timeout.ms": ("both", 1000, _INT, ""),
    "transaction.timeout.ms": ("producer", 1000, _INT, ""),
}
_OR_MINUS_ONE = ("connections.max.idle.ms", "receive.buffer.bytes", "send.buffer.bytes")
"""-1 in Java is 0 in librdkafka: the system's default, or never."""

_SAME: Mapping[tuple[Side, Kind], str] = {
    ("both", "string"): """bootstrap.servers client.dns.lookup client.id metadata.recovery.strategy
        sasl.kerberos.kinit.cmd sasl.kerberos.service.name sasl.mechanism sasl.oauthbearer.sub.claim.name
        sasl.oauthbearer.token.endpoint.url security.protocol ssl.key.password ssl.keystore.password""",
    ("both", "list"): "ssl.cipher.suites",
    ("both", "boolean"): "enable.metrics.push",
    ("producer", "string"): "compression.type transactional.id",
    ("producer", "boolean"): "enable.idempotence",
    ("consumer", "string"): """client.rack group.id group.instance.id group.protocol group.remote.assignor
        isolation.level""",
    ("consumer", "boolean"): "allow.auto.create.topics check.crcs enable.auto.commit",
}
_RENAMED: Mapping[str, str] = {
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_TRANSLATED: Mapping[str, tuple[Side, Kind, str]] = {
    "acks": ("producer", "string", "`all`, or a number"),
    "auto.offset.reset": ("consumer", "string", "`none` is librdkafka's `error`"),
    "buffer.memory": ("producer", "integer", "`queue.buffering.max.kbytes`, in units of 1024 bytes"),
    "compression.gzip.level": (
        "producer",
        "integer",
        "`compression.level`, where `compression.type` is gzip",
    ),
    "compression.lz4.level": ("producer", "integer", "`compression.level`, where `compression.type` is lz4"),
    "compression.zstd.level": (
        "producer",
        "integer",
        "`compression.level`, where `compression.type` is zstd",
    ),
    "partition.assignment.strategy": (
        "consumer",
        "list",
        "class names become `range`, `roundrobin` and `cooperative-sticky`; eager and cooperative ones "
        "cannot be mixed, so only those that go with the first are used",
    ),
    "partitioner.class": (
        "producer",
        "string",
        "`RoundRobinPartitioner` is implemented here; others are ignored: keys choose partitions by murmur2, "
        "as in Java",
    ),
    "partitioner.ignore.keys": ("producer", "boolean", "true: `partitioner` is `random`"),
    "request.timeout.ms": ("both", "integer", "for a consumer: `socket.timeout.ms`"),
    "sasl.jaas.config": (
        "both",
        "string",
        "its user name and password become `sasl.username` and `sasl.password`; a client id and secret "
        "those of `sasl.oauthbearer`, method oidc",
    ),
    "ssl.endpoint.identification.algorithm": ("both", "string", "empty is librdkafka's `none`"),
    "ssl.keystore.location": (
        "both",
        "string",
        "PKCS12 as it is; PEM as `ssl.certificate.location` and `ssl.key.location`; JKS cannot be read",
    ),
    "ssl.truststore.location": ("both", "string", "PEM: `ssl.ca.location`; JKS and PKCS12 cannot be read"),
}
_OWN: Mapping[str, tuple[Side, Kind, str]] = {
    "default.api.timeout.ms": (
        "consumer",
        "integer",
        "how long a call of the consumer may take (default: 60000)",
    ),
    "max.block.ms": ("producer", "integer", "how long `send` waits for a topic or for room (default: 60000)"),
    "max.poll.records": ("consumer", "integer", "how many records one `poll` returns at most (default: 500)"),
    "producer.type": ("producer", "string", "`sync` (`send` returns when acknowledged) or `async`"),
}
_NOT_JAVA = "it names a Java class"
_BYTES = "keys and values are bytes here"
_JVM = "internal to the Java client"
_IGNORED: Mapping[str, tuple[Side, Kind, str]] = {
    **dict.fromkeys(("key.serializer", "value.serializer"), ("producer", "string", _BYTES)),
    **dict.fromkeys(("key.deserializer", "value.deserializer"), ("consumer", "string", _BYTES)),
    **dict.fromkeys(("interceptor.classes", "metric.reporters"), ("both", "list", _NOT_JAVA)),
    **dict.fromkeys(
        (
            "sasl.client.callback.handler.class",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "ssl.engine.factory.class",
        ),
        ("both", "string", _NOT_JAVA),
    ),
    **dict.fromkeys(("metrics.num.samples", "metrics.sample.window.ms"), ("both", "integer", _JVM)),
    "metrics.recording.level": ("both", "string", _JVM),
    "auto.include.jmx.reporter": ("both", "boolean", "there is no JMX here"),
    "exclude.internal.topics": (
        "consumer",
        "boolean",
        "a pattern matches whatever it says, internal topics too",
    ),
    "internal.leave.group.on.close": ("consumer", "boolean", _JVM),
    "internal.throw.on.fetch.stable.offset.unsupported": ("consumer", "boolean", _JVM),
    "metadata.max.idle.ms": ("producer", "integer", "librdkafka does not expire a topic's metadata"),
    "partitioner.adaptive.partitioning.enable": (
        "producer",
        "boolean",
        "librdkafka does not prefer fast brokers",
    ),
    "partitioner.availability.timeout.ms": ("producer", "integer", "librdkafka does not prefer fast brokers"),
    "socket.connection.setup.timeout.max.ms": ("both", "integer", "librdkafka has one connection timeout"),
    **dict.fromkeys(
        (
            "ssl.keymanager.algorithm",
            "ssl.keystore.type",
            "ssl.protocol",
            "ssl.provider",
            "ssl.secure.random.implementation",
            "ssl.trustmanager.algorithm",
            "ssl.truststore.password",
            "ssl.truststore.type",
            "security.providers",
        ),
        ("both", "string", "OpenSSL needs no such setting"),
    ),
    "ssl.enabled.protocols": ("both", "list", "OpenSSL chooses the newest that both sides support"),
    **dict.fromkeys(
        (
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
            "sasl.login.refresh.window.factor",
            "sasl.login.refresh.window.jitter",
        ),
        ("both", "number", "librdkafka has its own renewal schedule"),
    ),
    **dict.fromkeys(
        (
            "sasl.login.connect.timeout.ms",
            "sasl.login.read.timeout.ms",
            "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds",
            "sasl.login.retry.backoff.max.ms",
            "sasl.login.retry.backoff.ms",
        ),
        ("both", "integer", "librdkafka has its own renewal schedule"),
    ),
    **dict.fromkeys(
        (
            "sasl.oauthbearer.clock.skew.seconds",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        ),
        ("both", "integer", "only brokers validate tokens"),
    ),
    **dict.fromkeys(
        (
            "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.jwks.endpoint.url",
            "sasl.oauthbearer.scope.claim.name",
        ),
        ("both", "string", "only brokers validate tokens"),
    ),
    "sasl.oauthbearer.expected.audience": ("both", "list", "only brokers validate tokens"),
    "sasl.oauthbearer.header.urlencode": ("both", "boolean", "librdkafka has its own encoding"),
    "enable.auto.offset.store": ("consumer", "boolean", "a record counts as read at the poll after it"),
    "enable.partition.eof": ("consumer", "boolean", "an empty poll means the same"),
    "delivery.report.only.error": ("producer", "boolean", "`send` waits for each acknowledgement"),
}
_LIBRDKAFKA: Mapping[Side, str] = {
    "both": """broker.address.family broker.address.ttl debug enable.sasl.oauthbearer.unsecure.jwt
        enable.ssl.certificate.verification https.ca.location https.ca.pem log.connection.close
        log.thread.name log_level max.in.flight message.copy.max.bytes message.max.bytes metadata.broker.list
        metadata.recovery.rebootstrap.trigger.ms plugin.library.paths receive.message.max.bytes
        sasl.kerberos.keytab sasl.kerberos.principal sasl.mechanisms sasl.oauthbearer.client.id
        sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
        sasl.oauthbearer.method sasl.oauthbearer.scope sasl.password sasl.username socket.keepalive.enable
        socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
        socket.timeout.ms ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem
        ssl.crl.location ssl.curves.list ssl.engine.id ssl.engine.location ssl.key.location ssl.key.pem
        ssl.providers ssl.sigalgs.list statistics.interval.ms topic.blacklist
        topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms
        topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse""",
    "producer": """batch.num.messages compression.codec compression.level enable.gapless.guarantee
        message.send.max.retries message.timeout.ms partitioner queue.buffering.backpressure.threshold
        queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queuing.strategy
        request.required.acks sticky.partitioning.linger.ms""",
    "consumer": """auto.commit.enable coordinator.query.interval.ms fetch.error.backoff.ms
        fetch.message.max.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.protocol.type
        queued.max.messages.kbytes queued.min.messages""",
}


def _rows() -> Iterator[Property]:
    for name, (side, low, high, to) in _INTEGERS.items():
        least = -1 if name in _OR_MINUS_ONE else 0
        handling = Handling.RENAMED if to else Handling.SAME
        yield Property(
            name=name,
            side=side,
            kind="integer",
            handling=handling,
            to=to or name,
            low=low,
            high=high,
            least=least,
        )
    for (side, kind), names in _SAME.items():
        yield from (Property(name, side, kind, Handling.SAME, name) for name in names.split())
    for name, to in _RENAMED.items():
        yield Property(name, "both", "string", Handling.RENAMED, to)
    explained: tuple[tuple[Handling, Mapping[str, tuple[Side, Kind, str]]], ...] = (
        (Handling.TRANSLATED, _TRANSLATED),
        (Handling.OWN, _OWN),
        (Handling.IGNORED, _IGNORED),
    )
    for handling, rows in explained:
        for name, (side, kind, about) in rows.items():
            # Java's lowest compression level means "fast", or the codec's default.
            least = -131_072 if name.startswith("compression.") else 0
            yield Property(name, side, kind, handling, about=about, least=least)
    for side, names in _LIBRDKAFKA.items():
        yield from (Property(name, side, "any", Handling.LIBRDKAFKA, name) for name in names.split())


PROPERTIES: Mapping[str, Property] = MappingProxyType(
    {row.name: row for row in sorted(_rows(), key=lambda row: row.name)}
)
"""Every property by its name."""

BEYOND_JAVA = frozenset(
    ("producer.type", "enable.auto.offset.store", "enable.partition.eof", "delivery.report.only.error")
)
"""Names that neither Java nor librdkafka is given."""
