"""One request to a broker over a socket of our own, where confluent-kafka has no call for it.

Any broker will do: it hands requests for the controller on. Plain connections only: why, is told in
docs/decisions/0011-quotas-by-kafkas-own-protocol.md.
"""

from __future__ import annotations

import itertools
import socket
import struct

from confluent_kafka import KafkaError

from distributary.errors import KafkaRefused, KafkaUnavailable
from distributary.kafka import frames, trouble
from distributary.kafka.cluster import Cluster
from distributary.kafka.frames import BadFrame, Reader

_MAX = 64 << 20
_numbers = itertools.count(1)


def call(cluster: Cluster, api: int, version: int, body: bytes, what: str, tool: str) -> Reader:
    """Send a request and give the answer, behind its header.

    Raises KafkaRefused where connections are not plain (``tool`` is Kafka's own, which can do it there),
    KafkaUnavailable when no broker answers.
    """
    security = cluster.kafka.properties.get("security.protocol", "PLAINTEXT").upper()
    if security != "PLAINTEXT":
        raise KafkaRefused(
            f"{what}: this works on plain connections only, and security.protocol is {security}",
            hint=f"Use Kafka's own {tool} with the same properties",
        )
    correlation = next(_numbers)
    request = frames.request(api, version, correlation, body)
    failed = ""
    for server in cluster.servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            address = (host.strip("[]"), int(port))
            with socket.create_connection(address, trouble.LIMIT) as connection:
                connection.sendall(request)
                return frames.response(_frame(connection), correlation)
        except BadFrame as error:
            raise KafkaRefused(f"{what}: {server} answered what is not Kafka's protocol ({error})") from None
        except OSError as error:
            failed = str(error)
    raise KafkaUnavailable(
        f"{what}: Kafka at {cluster.servers} does not answer ({failed or 'no answer'})",
        hint="Check that it runs, and that it knows this request (Kafka 2.6 and later do)",
    )


def check(code: int, message: str | None, what: str, cluster: Cluster) -> None:
    """Raise the named error of a code that is not 0; the broker's own words where it has some."""
    if code:
        error = KafkaError(code, message) if message else KafkaError(code)
        raise trouble.named(error, what, cluster.servers)


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
