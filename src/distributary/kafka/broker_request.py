"""One request to a broker over a socket of our own, for requests that confluent-kafka does not offer.

Any broker will do: it forwards requests for the controller. For the reasons see
docs/decisions/0011-quotas-by-kafkas-own-protocol.md.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import secrets
import socket
import ssl
import struct
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from distributary.errors import KafkaRefused, KafkaUnavailable
from distributary.kafka import librdkafka, wire_protocol
from distributary.kafka.admin import Cluster
from distributary.kafka.kafka_errors import admin_error
from distributary.kafka.wire_protocol import BadFrame, Reader, Writer

_MAX = 64 << 20
_AUTHENTICATE, _AUTHENTICATE_VERSION = 36, 2
_numbers = itertools.count(1)


def call(cluster: Cluster, *, api: int, version: int, body: bytes, what: str, tool: str) -> Reader:
    """Send a request and return the response, after its header.

    Raises KafkaRefused if the broker refuses the request, or requires a login that is not supported here
    (``tool`` is Kafka's own, which supports it), KafkaUnavailable if no broker answers.
    """
    security = security_of(librdkafka.properties(cluster.kafka), what, tool)
    failure = ""
    for server in cluster.servers.split(","):
        host, _, port = server.strip().rpartition(":")
        host = host.rpartition("://")[2].strip("[]")
        try:
            with (
                socket.create_connection((host, int(port)), librdkafka.REQUEST_LIMIT) as plain,
                security.wrap(plain, host) as connection,
            ):
                if security.mechanism:
                    _log_in(connection, security, what, cluster)
                return _ask(connection, api, version, body)
        except BadFrame as error:
            raise KafkaRefused(f"{what}: {server} does not speak Kafka's protocol ({error})") from None
        except LoginFailed as error:
            raise KafkaRefused(f"{what}: login at {server} failed: {error}") from None
        except ssl.SSLCertVerificationError as error:
            raise KafkaRefused(
                f"{what}: the certificate of {server} is not valid: {error.verify_message}",
                hint="Set ssl.ca.location in kafka.properties to the file of its CA",
            ) from None
        except OSError as error:
            failure = str(error)
    raise KafkaUnavailable(
        f"{what}: Kafka at {cluster.servers} does not respond ({failure or 'no response'})",
        hint="Check that it runs, and that it supports this request (Kafka 2.6 and later do)",
    )


def _ask(connection: socket.socket, api: int, version: int, body: bytes) -> Reader:
    correlation = next(_numbers)
    connection.sendall(wire_protocol.request(api, version, correlation, body))
    return wire_protocol.response(_frame(connection), correlation)


def _log_in(connection: socket.socket, security: Security, what: str, cluster: Cluster) -> None:
    """Log in before any other request; raises KafkaRefused and LoginFailed."""
    correlation = next(_numbers)
    connection.sendall(wire_protocol.handshake(correlation, security.mechanism))
    check(wire_protocol.handshake_error(_frame(connection), correlation), None, what, cluster)
    exchange = security.login()
    message = next(exchange)
    while True:
        body = Writer().data(message).end().written()
        answer = _ask(connection, _AUTHENTICATE, _AUTHENTICATE_VERSION, body)
        check(answer.whole("h"), answer.text(), what, cluster)
        try:
            message = exchange.send(answer.data() or b"")
        except StopIteration:
            return


def check(code: int, message: str | None, what: str, cluster: Cluster) -> None:
    """Raise the error of a code that is not 0, with the broker's own message if it sent one."""
    if code:
        error = KafkaError(code, message) if message else KafkaError(code)
        raise admin_error(error, what, cluster.servers)


def _frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    if not 0 < size <= _MAX:
        raise BadFrame(f"a frame of {size} bytes")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = connection.recv(min(65536, size - len(found)))
        if not part:
            raise OSError("the broker closed the connection")
        found += part
    return bytes(found)


# --- what a connection needs ----------------------------------------------------------------------------


_PROTOCOLS = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
_UNSUPPORTED = (
    "ssl.keystore.location",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.crl.location",
    "ssl.engine.location",
    "ssl.providers",
)
"""librdkafka's properties of connections that are not supported here."""


@dataclass(frozen=True)
class Security:
    """The security of a connection, from librdkafka's properties."""

    context: ssl.SSLContext | None
    mechanism: str
    user: str
    password: str

    def wrap(self, plain: socket.socket, host: str) -> socket.socket:
        """Add TLS to a socket if it is configured; raises OSError."""
        return plain if self.context is None else self.context.wrap_socket(plain, server_hostname=host)

    def login(self) -> Login:
        """Begin a login; only if there is a ``mechanism``."""
        return login(self.mechanism, self.user, self.password, secrets.token_hex(16))


def security_of(properties: Mapping[str, Any], what: str, tool: str) -> Security:
    """Read the properties of connections; raises KafkaRefused, naming ``tool``, for unsupported ones."""
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    if protocol not in _PROTOCOLS:
        raise _refused(what, f"security.protocol is {protocol}", tool)
    tls, sasl = _PROTOCOLS[protocol]
    mechanism = ""
    if sasl:
        configured = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))
        mechanism = str(configured).upper()
        if mechanism not in MECHANISMS:
            raise _refused(what, f"sasl.mechanism is {mechanism}, not one of {', '.join(MECHANISMS)}", tool)
    if tls and (unsupported := [name for name in _UNSUPPORTED if properties.get(name)]):
        raise _refused(what, f"{unsupported[0]} is not supported here", tool)
    user, password = (str(properties.get(f"sasl.{name}", "")) for name in ("username", "password"))
    return Security(_context(properties, what) if tls else None, mechanism, user, password)


def _context(properties: Mapping[str, Any], what: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem")
        )
        if certificate := properties.get("ssl.certificate.location"):
            password = properties.get("ssl.key.password")
            context.load_cert_chain(certificate, properties.get("ssl.key.location"), password or "")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise KafkaRefused(
            f"{what}: cannot use the certificates for Kafka: {reason}",
            hint="Check ssl.ca.location, ssl.certificate.location and ssl.key.location in kafka.properties",
        ) from None
    verified = str(properties.get("enable.ssl.certificate.verification", "true")).lower() != "false"
    by_name = str(properties.get("ssl.endpoint.identification.algorithm", "https")).lower() == "https"
    context.check_hostname = verified and by_name
    if not verified:
        context.verify_mode = ssl.CERT_NONE
    return context


def _refused(what: str, why: str, tool: str) -> KafkaRefused:
    return KafkaRefused(f"{what}: {why}", hint=f"Use Kafka's own {tool} with the same properties")


# --- logging in: PLAIN and SCRAM (RFC 5802). Pure: messages in, messages out ----------------------------


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_MIN_ITERATIONS, _MAX_ITERATIONS = 4096, 1_000_000
"""Iterations: RFC 7677 requires as many, and a broker must not keep us busy for ever."""

Login = Generator[bytes, bytes, None]


class LoginFailed(ValueError):
    """The broker's message is not one of a broker that knows the password."""


def login(mechanism: str, user: str, password: str, nonce: str) -> Login:
    """Yield the messages to send, and be sent the broker's, until it ends; raises LoginFailed.

    ``mechanism`` is one of `MECHANISMS`; ``nonce`` is random, of printable characters without a comma.
    """
    if mechanism == "PLAIN":
        return _plain(user, password)
    return _scram(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), user, password, nonce)


def _plain(user: str, password: str) -> Login:
    yield f"\0{user}\0{password}".encode()


def _scram(digest: str, user: str, password: str, nonce: str) -> Login:
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = yield f"n,,{bare}".encode()
    challenge = _attributes(first)
    salt, rounds = _bytes(challenge.get("s", "")), challenge.get("i", "")
    both = challenge.get("r", "")
    if not both.startswith(nonce) or both == nonce or not salt:
        raise LoginFailed("the broker's part of the nonce or its salt is missing")
    if (
        not rounds.isascii()
        or not rounds.isdigit()
        or not _MIN_ITERATIONS <= int(rounds[:9]) <= _MAX_ITERATIONS
    ):
        raise LoginFailed(f"the broker requests {rounds[:12]!r} iterations")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, int(rounds))
    final = f"c=biws,r={both}"
    signed = b",".join((bare.encode(), first, final.encode()))
    key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    final_message = _attributes((yield f"{final},p={base64.b64encode(proof).decode()}".encode()))
    if "e" in final_message:
        raise LoginFailed(f"the broker refuses the proof: {final_message['e'][:80]}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    # An impostor that does not know the password may accept any login to receive our requests.
    if not hmac.compare_digest(expected, _bytes(final_message.get("v", ""))):
        raise LoginFailed("the broker did not prove that it knows the password")


def _attributes(message: bytes) -> dict[str, str]:
    """Parse the attributes of a message."""
    try:
        pairs = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise LoginFailed("the broker's message is not UTF-8") from None
    return {name: value for name, _, value in pairs}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise LoginFailed("the broker's message is not base64") from None
