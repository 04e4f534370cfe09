"""How a socket of our own becomes a connection that a broker trusts: TLS, then a login."""

from __future__ import annotations

import secrets
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distributary.errors import KafkaRefused
from distributary.kafka.sasl import MECHANISMS, Login, login

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
