"""The settings that every server has: where it listens, who may use it, and how long it waits for anybody."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.config import validators
from distributary.config.setting_field import Section, setting


def listen_port(default: int, doc: str, *, low: int = 1, example: str = "") -> int:
    """The port that a server listens on."""
    port: int = setting(default, doc, low=low, high=65535, example=example)
    return port


def most_connections(default: int) -> int:
    """How many connections a server may have."""
    most: int = setting(
        default,
        "Most connections that a process has at a time. Further ones are refused with 503, or closed.",
        low=1,
        high=10_000_000,
        example="50000",
    )
    return most


@dataclass(frozen=True, slots=True, repr=False)
class Listening(Section):
    """What every server has."""

    host: str = setting(
        "127.0.0.1",
        'The address to listen on; "0.0.0.0" listens on all of the machine\'s.',
        example='"0.0.0.0"',
        check=validators.not_blank,
    )
    port: int = listen_port(0, "The port to listen on.", low=0)
    hosts: tuple[str, ...] = setting(
        (),
        "Names that requests may call this server by (their Host) while it listens on a loopback address, "
        "besides this machine's own and that of `advertised_url`: the name that a proxy passes on.",
        example='["stream.example.com"]',
        check=validators.host_name,
    )
    origins: tuple[str, ...] = setting(
        (),
        'Origins whose pages may use this server; "https://*.example.com" allows all below a domain, "*" '
        "all. Empty: only pages of the server's own host.",
        example='["https://app.example.com"]',
        check=validators.origin,
    )
    trusted_proxies: tuple[str, ...] = setting(
        (),
        "Addresses or networks of the proxies before this server. Of them alone X-Forwarded-For is believed, "
        "by which connections are counted for each client.",
        example='["10.0.0.0/8"]',
        check=validators.network,
    )
    max_connections: int = most_connections(1_000)
    max_connections_per_address: int = setting(
        1_000,
        "Most connections that a process has from one client address (for IPv6: from one /64 network). "
        "Loopback addresses are not counted.",
        low=1,
        high=10_000_000,
        example="100",
    )
    header_timeout: float = setting(
        10.0,
        "How long a client may take to send the head of a request, from connecting or from the first byte of "
        "a further request.",
        unit="s",
        low=0.001,
        high=3600,
        example='"5 s"',
    )
    body_timeout: float = setting(
        20.0,
        "How long a client may take to send the body of a request: this, and a second for every KiB of it.",
        unit="s",
        low=0.001,
        high=3600,
        example='"60 s"',
    )
    write_timeout: float = setting(
        60.0,
        "A client that takes nothing of what waits for it is closed after this.",
        unit="s",
        low=0.001,
        high=3600,
        example='"20 s"',
    )
    keepalive_timeout: float = setting(
        75.0,
        "How long a connection is kept without a request.",
        unit="s",
        low=0.001,
        high=3600,
        example='"5 s"',
    )
    tls_certificate: str = setting(
        "",
        "PEM file with the certificate of this server, and those between it and its CA, relative to the "
        "file's folder. With it the server speaks TLS only. Changed files are read again while it runs.",
        example='"tls/server.pem"',
    )
    tls_key: str = setting(
        "",
        "PEM file with the certificate's key, without a password. Empty: it is in the certificate's file.",
        example='"tls/server-key.pem"',
    )
    tls_client_ca: str = setting(
        "",
        "PEM file of the CAs whose client certificates are let in. With it every client must show one.",
        example='"tls/ca.pem"',
    )

    @property
    def http_scheme(self) -> str:
        """What addresses of HTTP begin with."""
        return "https" if self.tls_certificate else "http"

    @property
    def websocket_scheme(self) -> str:
        """What addresses of WebSockets begin with."""
        return "wss" if self.tls_certificate else "ws"
