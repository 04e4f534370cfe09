"""A cluster: wait until a broker answers, say why none does, and wait for the results of requests."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from distributary.config.sections import Kafka
from distributary.errors import KafkaRefused, KafkaUnavailable
from distributary.kafka import librdkafka
from distributary.kafka.kafka_errors import NO_COORDINATOR, UNREACHABLE_HINT, admin_error, is_auth_error

PORT_LIMIT = 1.0
"""How long to wait for one port when it is probed, in seconds."""
_GRACE = 5.0
"""How much longer than the library's own limit a result is waited for, in seconds."""


@dataclass(frozen=True)
class Cluster:
    """An admin client and where it connects. Its calls block, each with a time limit."""

    kafka: Kafka
    admin: AdminClient

    @property
    def servers(self) -> str:
        """The bootstrap servers as configured."""
        return self.kafka.bootstrap_servers

    def wait(self, future: Future[Any], what: str) -> Any:
        """Wait for one result; an error's message begins with ``what``."""
        try:
            return future.result(librdkafka.REQUEST_LIMIT + _GRACE)
        except KafkaException as error:
            raise admin_error(error, what, self.servers) from None
        except TimeoutError:
            raise self._silent(what) from None

    def wait_for_group(self, request: Callable[[], Future[Any]], what: str) -> Any:
        """As `wait`, for a request to a group's coordinator: it is repeated while there is none yet."""
        deadline = time.monotonic() + librdkafka.REQUEST_LIMIT
        while True:
            try:
                found = request().result(librdkafka.REQUEST_LIMIT + _GRACE)
                for error in getattr(found, "errors", ()):  # of brokers whose groups are missing in a list
                    raise KafkaException(error)
                return found
            except KafkaException as error:
                if error.args[0].code() not in NO_COORDINATOR or time.monotonic() > deadline:
                    raise admin_error(error, what, self.servers) from None
                time.sleep(0.1)
            except TimeoutError:
                raise self._silent(what) from None

    def _silent(self, what: str) -> KafkaUnavailable:
        return KafkaUnavailable(f"{what}: Kafka at {self.servers} does not respond", hint="Try again")


def connect(kafka: Kafka, limit: float) -> Cluster:
    """Find a broker that answers; raises KafkaUnavailable after ``limit`` seconds, KafkaRefused at once."""
    wait_for_kafka(kafka, limit, patient=False)
    return Cluster(kafka, librdkafka.admin(kafka))


def wait_for_kafka(
    kafka: Kafka, limit: float, report: Callable[[str], None] = lambda line: None, *, patient: bool = True
) -> str:
    """Wait until a broker answers and is in service; return the cluster id.

    ``report`` is called once with a line if there is something to wait for. Raises `KafkaUnavailable` after
    ``limit`` seconds with the address and the last error. If a broker refuses the connection it raises
    `KafkaRefused`: after ``limit`` too, or, unless ``patient``, as soon as a broker or its port shows it.
    """
    deadline = time.monotonic() + limit
    causes: list[KafkaError] = []  # what librdkafka reports of connections
    errors: list[KafkaError] = []  # the same and what our requests ended with
    handle = librdkafka.admin(kafka, on_error=causes.append)
    reported = False
    while True:
        left = deadline - time.monotonic()
        try:
            metadata = handle.list_topics(timeout=max(0.05, min(left, 2.0 if reported and patient else 0.25)))
            if metadata.brokers:
                return str(metadata.cluster_id)
            errors.append(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, "no broker is in service yet"))
        except KafkaException as error:
            errors.append(error.args[0])
        handle.poll(0)  # calls on_error with what librdkafka met meanwhile
        over = deadline - time.monotonic() <= 0
        refusal = next(filter(is_auth_error, (*causes, *errors)), None)
        if refusal is not None and (over or not patient):
            raise admin_error(refusal, "connecting", kafka.bootstrap_servers)
        if over:
            security = kafka.properties.get("security.protocol")
            # A broker that is starting may hang up as well, so a patient caller is not given this guess.
            if not patient and (mismatch := probe_ports(kafka.bootstrap_servers, security)):
                raise KafkaRefused(
                    f"connecting: Kafka at {kafka.bootstrap_servers} refuses the connection ({mismatch})",
                    hint="Set security.protocol, and sasl.* if it requires a password, in kafka.properties "
                    "or --command-config",
                )
            raise KafkaUnavailable(
                f"Kafka at {kafka.bootstrap_servers} did not respond within {limit:g} s "
                f"({_most_telling(causes, errors)})",
                hint=UNREACHABLE_HINT,
            )
        if not reported:
            reported = True
            report(f"waiting for Kafka at {kafka.bootstrap_servers}")
        time.sleep(0.05)


def _most_telling(causes: list[KafkaError], errors: list[KafkaError]) -> str:
    """The last error of a connection rather than one that only says that nothing worked."""
    telling = [error for error in causes if error.code() != KafkaError._ALL_BROKERS_DOWN]
    return (telling or errors or causes)[-1].str()


# --- why a port that is open does not respond --------------------------------------------------------------


def probe_ports(servers: str, security: str | None) -> str:
    """How the first open port differs from ``security.protocol``: librdkafka does not report hang-ups.

    Empty if that is unknown: no port is open, or none answers.
    """
    configured = (security or "PLAINTEXT").upper()
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), PORT_LIMIT) as connection:
                tls = _speaks_tls(connection)
        except (OSError, ValueError):
            continue
        if tls and "SSL" not in configured:
            return f"{server} speaks TLS, and security.protocol is {configured}"
        if not tls and "SSL" in configured:
            return f"{server} does not speak TLS, and security.protocol is {configured}"
        if not tls and "SASL" not in configured:
            return f"{server} hangs up, and security.protocol is {configured}: it may require a password"
    return ""


def _speaks_tls(connection: socket.socket) -> bool:
    """Whether the other side begins to speak TLS; raises TimeoutError if it sends nothing at all."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent, so its identity does not matter
    try:
        context.wrap_socket(connection).close()
    except (ssl.SSLEOFError, ConnectionError):
        return False
    except ssl.SSLError as error:
        # An alert is TLS; other bytes, or an end, are not.
        return "ALERT" in (error.reason or "")
    return True
