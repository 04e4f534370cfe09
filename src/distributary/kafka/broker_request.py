"""One request to a broker over a socket of our own, where confluent-kafka has no call for it.

Any broker will do: it hands requests for the controller on. Why we do it, is told in
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
                socket.create_connection((host, int(port)), librdkafka.REQUEST_LIMIT) as plain,
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
        raise admin_error(error, what, cluster.servers)


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


# --- what a connection needs ----------------------------------------------------------------------------


_PROTOCOLS = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
_UNSERVED = (
    "ssl.keystore.location",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.crl.location",
    "ssl.engine.location",
    "ssl.providers",
)
"""Properties of librdkafka that matter for a connection, and that we cannot follow."""


@dataclass(frozen=True)
class Security:
    """What a connection needs, by the properties of librdkafka."""

    context: ssl.SSLContext | None
    mechanism: str
    user: str
    password: str

    def wrap(self, plain: socket.socket, host: str) -> socket.socket:
        """Have a socket speak TLS where that is wanted; raises OSError."""
        return plain if self.context is None else self.context.wrap_socket(plain, server_hostname=host)

    def login(self) -> Login:
        """Begin a login; only where there is a ``mechanism``."""
        return login(self.mechanism, self.user, self.password, secrets.token_hex(16))


def security_of(properties: Mapping[str, Any], what: str, tool: str) -> Security:
    """Read how connections are made; raises KafkaRefused, which names ``tool``, for what is not served."""
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    if protocol not in _PROTOCOLS:
        raise _refused(what, f"security.protocol is {protocol}", tool)
    tls, sasl = _PROTOCOLS[protocol]
    mechanism = ""
    if sasl:
        named = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))
        mechanism = str(named).upper()
        if mechanism not in MECHANISMS:
            raise _refused(what, f"sasl.mechanism is {mechanism}, and not {', '.join(MECHANISMS)}", tool)
    if tls and (unserved := [name for name in _UNSERVED if properties.get(name)]):
        raise _refused(what, f"{unserved[0]} is not served here", tool)
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
            f"{what}: the certificates for Kafka cannot be used: {reason}",
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

_LEAST, _MOST = 4096, 1_000_000
"""Iterations: RFC 7677 wants as many, and a broker must not keep us busy for ever."""

Login = Generator[bytes, bytes, None]


class LoginFailed(ValueError):
    """What the broker said is not what one says who knows the password."""


def login(mechanism: str, user: str, password: str, nonce: str) -> Login:
    """Yield what to send, and take what the broker answers, until it ends; raises LoginFailed.

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
    said = _read(first)
    salt, rounds = _bytes(said.get("s", "")), said.get("i", "")
    both = said.get("r", "")
    if not both.startswith(nonce) or both == nonce or not salt:
        raise LoginFailed("the broker's part of the nonce or its salt is missing")
    if not rounds.isascii() or not rounds.isdigit() or not _LEAST <= int(rounds[:9]) <= _MOST:
        raise LoginFailed(f"the broker asks for {rounds[:12]!r} iterations")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, int(rounds))
    final = f"c=biws,r={both}"
    signed = b",".join((bare.encode(), first, final.encode()))
    key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    answer = _read((yield f"{final},p={base64.b64encode(proof).decode()}".encode()))
    if "e" in answer:
        raise LoginFailed(f"the broker refuses the proof: {answer['e'][:80]}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    # One that does not know the password may have let us in to hear what we ask.
    if not hmac.compare_digest(expected, _bytes(answer.get("v", ""))):
        raise LoginFailed("the broker did not prove that it knows the password")


def _read(message: bytes) -> dict[str, str]:
    """Read the attributes of a message."""
    try:
        pairs = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise LoginFailed("the broker's answer is not UTF-8") from None
    return {name: value for name, _, value in pairs}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise LoginFailed("the broker's answer is not base64") from None
