"""The sections of the servers: what all of them have, and each of their own.

One table, longer than other modules: each setting is described here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from distributary.config import validators
from distributary.config.setting_field import Section, setting
from distributary.model import value_checks


def listen_port(default: int, doc: str, *, low: int = 1, example: str = "") -> int:
    """Declare the port that a server listens on."""
    port: int = setting(default, doc, low=low, high=65535, example=example)
    return port


def connection_limit(default: int) -> int:
    """Declare how many connections a server accepts."""
    limit: int = setting(
        default,
        "Maximum number of concurrent connections per process. Further ones are rejected with 503, or "
        "closed.",
        low=1,
        high=10_000_000,
        example="50000",
    )
    return limit


@dataclass(frozen=True, slots=True, repr=False)
class Listening(Section):
    """What every server has."""

    host: str = setting(
        "127.0.0.1",
        'The address to listen on; "0.0.0.0" listens on all addresses of the machine.',
        example='"0.0.0.0"',
        check=value_checks.not_blank,
    )
    port: int = listen_port(0, "The port to listen on.", low=0)
    hosts: tuple[str, ...] = setting(
        (),
        "Host names that requests may use for this server while it listens on a loopback address, besides "
        "the names of this machine and the one in `advertised_url`: the name that a proxy forwards.",
        example='["stream.example.com"]',
        check=validators.host_name,
    )
    origins: tuple[str, ...] = setting(
        (),
        'Origins whose pages may use this server; "https://*.example.com" allows all subdomains, "*" allows '
        "all origins. Empty: only pages of the server's own host.",
        example='["https://app.example.com"]',
        check=validators.origin,
    )
    trusted_proxies: tuple[str, ...] = setting(
        (),
        "Addresses or networks of the proxies in front of this server. X-Forwarded-For, which gives the "
        "client addresses by which connections are counted, is accepted only from them.",
        example='["10.0.0.0/8"]',
        check=validators.network,
    )
    max_connections: int = connection_limit(1_000)
    max_connections_per_address: int = setting(
        1_000,
        "Maximum number of connections per process from one client address (for IPv6: one /64 network). "
        "Loopback addresses are exempt.",
        low=1,
        high=10_000_000,
        example="100",
    )
    header_timeout: float = setting(
        10.0,
        "Time for a client to send the head of a request, from connecting or from the first byte of a "
        "further request.",
        unit="s",
        low=0.001,
        high=3600,
        example='"5 s"',
    )
    body_timeout: float = setting(
        20.0,
        "Time for a client to send the body of a request, plus one second per KiB of it.",
        unit="s",
        low=0.001,
        high=3600,
        example='"60 s"',
    )
    write_timeout: float = setting(
        60.0,
        "A client that reads nothing of the data buffered for it is disconnected after this time.",
        unit="s",
        low=0.001,
        high=3600,
        example='"20 s"',
    )
    keepalive_timeout: float = setting(
        75.0,
        "How long an idle connection stays open.",
        unit="s",
        low=0.001,
        high=3600,
        example='"5 s"',
    )
    tls_certificate: str = setting(
        "",
        "PEM file with the certificate of this server and the intermediate certificates, relative to the "
        "configuration file. If it is set, the server accepts TLS only. Changed files are reloaded while it "
        "runs.",
        example='"tls/server.pem"',
    )
    tls_key: str = setting(
        "",
        "PEM file with the certificate's key, without a password. Empty: the key is in the certificate's "
        "file.",
        example='"tls/server-key.pem"',
    )
    tls_client_ca: str = setting(
        "",
        "PEM file of the CAs whose client certificates are accepted. If it is set, every client must present "
        "one.",
        example='"tls/ca.pem"',
    )

    @property
    def http_scheme(self) -> str:
        """The scheme of HTTP addresses."""
        return "https" if self.tls_certificate else "http"

    @property
    def websocket_scheme(self) -> str:
        """The scheme of WebSocket addresses."""
        return "wss" if self.tls_certificate else "ws"


@dataclass(frozen=True, slots=True, repr=False)
class Publisher(Listening):
    """The server that subscribers connect to."""

    port: int = listen_port(8000, "Port for WebSocket.")
    http_port: int = listen_port(8001, "Port for SSE, static files and the metrics.")
    static_dir: str = setting(
        "", "Folder whose files are served at `/` of the HTTP port. Empty: none.", example='"/srv/page"'
    )
    max_connections: int = connection_limit(10_000)
    processes: int = setting(
        1, "Number of publisher processes; they share the ports.", low=1, high=256, example="4"
    )
    queue_bytes: int = setting(
        1_048_576,
        "Bytes that may be queued for one slow connection before it is closed with a code that allows it to "
        "reconnect.",
        kind="size",
        unit="bytes",
        low=1024,
        high=1 << 40,
        example='"4 MiB"',
    )
    state_bytes: int = setting(
        268_435_456,
        "Memory per process for snapshots and resumes that connections have not read yet. Subscriptions for "
        "which there is no room wait, or are rejected with a temporary error.",
        kind="size",
        unit="bytes",
        low=1024,
        high=1 << 40,
        example='"1 GiB"',
    )
    ping_interval: float = setting(
        25.0, "Time between two pings to a connection.", unit="s", low=1, example='"10 s"'
    )
    max_frame: int = setting(
        65_536,
        "Size of the largest frame accepted from a subscriber.",
        kind="size",
        unit="bytes",
        low=1024,
        high=1 << 30,
        example='"256k"',
    )
    max_channels: int = setting(
        128, "Maximum number of channels that one connection may subscribe to.", low=1, example="512"
    )
    max_command_rate: int = setting(
        1_000,
        "Commands that one connection may send per second, plus one for each channel.",
        unit="commands/s",
        low=1,
        high=1_000_000,
        example="50",
    )
    max_materialized_rows: int = setting(
        100_000,
        "Maximum number of rows of one query that are held in memory for subscribers with an order or with "
        "conflation.",
        low=1,
        high=10_000_000,
        example="20_000",
    )
    max_limit: int = setting(
        1_000,
        "Maximum number of rows that a subscriber may request with `limit`.",
        low=1,
        high=100_000,
        example="100",
    )
    auth_timeout: float = setting(
        15.0, "Time for a new connection to authenticate.", unit="s", low=0.001, example='"5 s"'
    )
    compression: bool = setting(
        False,
        "Compress WebSocket messages (permessage-deflate, each message by itself) for clients that offer it.",
        example="true",
    )
    advertised_url: str = setting(
        "",
        "Public URL given to subscribers, if the publisher is behind a proxy. Empty: host and port.",
        example='"wss://stream.example.com"',
        secret=True,
        check=validators.advertised_url,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Control(Listening):
    """The REST control API."""

    port: int = listen_port(8080, "Port of the control API.")
    cache_max_age: float = setting(
        1.0,
        "How long caches may serve rows without revalidating them, in whole seconds.",
        unit="s",
        low=0,
        high=86_400,
        example='"5 s"',
    )
    cache_stale_while_revalidate: float = setting(
        5.0,
        "How long after that caches may serve them while they revalidate; whole seconds, 0 disables it.",
        unit="s",
        low=0,
        high=86_400,
        example='"30 s"',
    )
    cache_bytes: int = setting(
        268_435_456,
        "Memory for results whose pages are being read; one result may use half of it.",
        kind="size",
        unit="bytes",
        low=1024,
        high=1 << 40,
        example='"1 GiB"',
    )


@dataclass(frozen=True, slots=True, repr=False)
class Gateway(Listening):
    """Kafka over HTTP (REST proxy and topic streams) and the schema registry."""

    port: int = listen_port(8082, "Port of the gateway.")
    advertised_url: str = setting(
        "",
        "Public URL, with its path, that clients get in base_uri if the gateway is behind a proxy. "
        "Empty: taken from X-Forwarded-* headers, else host and port.",
        example='"https://kafka.example.com/rest"',
        secret=True,
        check=validators.web_url,
    )
    schemas_topic: str = setting(
        "distributary.schemas",
        "Compacted topic that stores the schemas of the registry.",
        example='"prod.distributary.schemas"',
        check=value_checks.topic,
    )
    max_body: int = setting(
        10_485_760,
        "Size of the largest request body, and of the largest response to one read.",
        kind="size",
        unit="bytes",
        low=1024,
        high=1 << 30,
        example='"1 MiB"',
    )
    max_instances: int = setting(
        256,
        "Maximum number of concurrent consumer instances and streams; each is a Kafka client.",
        low=1,
        high=100_000,
        example="1000",
    )
    instance_timeout: float = setting(
        30.0,
        "Time without a request after which a consumer instance is closed, so that other members of its "
        "group take over its partitions. If the client aborts a request, as a killed one does, it is closed "
        "after 3 s.",
        unit="s",
        low=0.1,
        example='"5 minutes"',
    )
    schema_timeout: float = setting(
        1.0,
        "Maximum CPU time to parse or compare a schema, or to check up to 100 records against one. Whatever "
        "takes longer is rejected.",
        unit="s",
        low=0.01,
        high=60,
        example='"500 ms"',
    )
    poll_timeout: float = setting(
        1.0,
        "How long a read waits for records if the request does not specify it.",
        unit="s",
        low=0,
        high=60,
        example='"5 s"',
    )


@dataclass(frozen=True, slots=True, repr=False)
class Socketio(Listening):
    """The socket.io gateway (requires the extra ``socketio``). Its limits are those of ``publisher``."""

    port: int = listen_port(
        0, "Port of the socket.io gateway. 0: `up` does not start one.", low=0, example="8003"
    )
    publishers: tuple[str, ...] = setting(
        (),
        "WebSocket URLs of the publishers that it uses. Empty: those of the stack.",
        example='["wss://stream.example.com"]',
        secret=True,
        check=validators.public_url,
    )
