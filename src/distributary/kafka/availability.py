"""Why a Kafka that is there does not answer: librdkafka does not say when a port hangs up on it."""

from __future__ import annotations

import socket
import ssl

LIMIT = 1.0
"""How long to wait for one port, in seconds."""


def look(servers: str, security: str | None) -> str:
    """What the first port that takes connections wants otherwise than ``security.protocol`` has it.

    Empty where nothing can be said: nobody listens there, or whoever does is silent.
    """
    given = (security or "PLAINTEXT").upper()
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), LIMIT) as connection:
                tls = _speaks_tls(connection)
        except (OSError, ValueError):
            continue
        if tls and "SSL" not in given:
            return f"{server} speaks TLS, and security.protocol is {given}"
        if not tls and "SSL" in given:
            return f"{server} does not speak TLS, and security.protocol is {given}"
        if not tls and "SASL" not in given:
            return f"{server} hangs up, and security.protocol is {given}: it may want a password"
    return ""


def _speaks_tls(connection: socket.socket) -> bool:
    """Whether the other side begins to speak TLS; raises TimeoutError when it says nothing at all."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: who it is does not matter
    try:
        context.wrap_socket(connection).close()
    except (ssl.SSLEOFError, ConnectionError):
        return False
    except ssl.SSLError as error:
        # An alert is TLS; bytes that are none, or an end, are not.
        return "ALERT" in (error.reason or "")
    return True
