"""One request to a broker over a socket of our own, where confluent-kafka has no call for it.

Any broker will do: it hands requests for the controller on. Why we do it, is told in
docs/decisions/0011-quotas-by-kafkas-own-protocol.md.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct

from confluent_kafka import KafkaError

from distributary.errors import KafkaRefused, KafkaUnavailable
from distributary.kafka import errors, librdkafka, wire_protocol
from distributary.kafka.admin import Cluster
from distributary.kafka.sasl import LoginFailed
from distributary.kafka.security import Security, security_of
from distributary.kafka.wire_protocol import BadFrame, Reader, Writer

_MAX = 64 << 20
_AUTHENTICATE, _AUTHENTICATE_VERSION = 36, 2
_numbers = itertools.count(1)


def call(cluster: Cluster, api: int, version: int, body: bytes, what: str, tool: str) -> Reader:
    """Send a request and give the answer, behind its header.

    Raises KafkaRefused where the broker refuses us, or wants a login that is not served here (``tool`` is
    Kafka's own, which can do it there), KafkaUnavailable when no broker answers.
    """
    security = security_of(librdkafka.properties(cluster.kafka), what, tool)
    failed = ""
    for server in cluster.servers.split(","):
        host, _, port = server.strip().rpartition(":")
        host = host.rpartition("://")[2].strip("[]")
        try:
            with (
                socket.create_connection((host, int(port)), errors.LIMIT) as plain,
                security.wrap(plain, host) as connection,
            ):
                if security.mechanism:
                    _log_in(connection, security, what, cluster)
                return _ask(connection, api, version, body)
        except BadFrame as error:
            raise KafkaRefused(f"{what}: {server} answered what is not Kafka's protocol ({error})") from None
        except LoginFailed as error:
            raise KafkaRefused(f"{what}: no login at {server}: {error}") from None
        except ssl.SSLCertVerificationError as error:
            raise KafkaRefused(
                f"{what}: the certificate of {server} does not count: {error.verify_message}",
                hint="Name the file of its CA as ssl.ca.location in kafka.properties",
            ) from None
        except OSError as error:
            failed = str(error)
    raise KafkaUnavailable(
        f"{what}: Kafka at {cluster.servers} does not answer ({failed or 'no answer'})",
        hint="Check that it runs, and that it knows this request (Kafka 2.6 and later do)",
    )


def _ask(connection: socket.socket, api: int, version: int, body: bytes) -> Reader:
    correlation = next(_numbers)
    connection.sendall(wire_protocol.request(api, version, correlation, body))
    return wire_protocol.response(_frame(connection), correlation)


def _log_in(connection: socket.socket, security: Security, what: str, cluster: Cluster) -> None:
    """Log in before anything else is asked; raises KafkaRefused and LoginFailed."""
    correlation = next(_numbers)
    connection.sendall(wire_protocol.handshake(correlation, security.mechanism))
    check(wire_protocol.handshake_error(_frame(connection), correlation), None, what, cluster)
    talk = security.login()
    message = next(talk)
    while True:
        body = Writer().data(message).end().written()
        answer = _ask(connection, _AUTHENTICATE, _AUTHENTICATE_VERSION, body)
        check(answer.whole("h"), answer.text(), what, cluster)
        try:
            message = talk.send(answer.data() or b"")
        except StopIteration:
            return


def check(code: int, message: str | None, what: str, cluster: Cluster) -> None:
    """Raise the named error of a code that is not 0; the broker's own words where it has some."""
    if code:
        error = KafkaError(code, message) if message else KafkaError(code)
        raise errors.named(error, what, cluster.servers)


def _frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    if not 0 < size <= _MAX:
        raise BadFrame(f"a size of {size} bytes")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = connection.recv(min(65536, size - len(found)))
        if not part:
            raise OSError("the broker closed the connection")
        found += part
    return bytes(found)
