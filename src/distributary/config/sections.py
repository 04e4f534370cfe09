"""The sections of ``distributary.toml``: the only place where their defaults are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distributary.config import validators
from distributary.config.server_sections import Listening, listen_port, most_connections
from distributary.config.setting_field import Section, setting
from distributary.model.sharding import shard_of

ENGINES = ("auto", "realtime", "microbatch")


@dataclass(frozen=True, slots=True, repr=False)
class Kafka(Section):
    """Where the feeds come from: a cluster of yours, or an embedded broker."""

    bootstrap_servers: str = setting(
        "",
        "Addresses of the Kafka cluster, separated by commas. Empty: an embedded broker is started.",
        example='"kafka-1:9092,kafka-2:9092"',
        aliases=("bootstrap.servers",),
        check=validators.servers,
    )
    port: int = listen_port(9092, "Port of the embedded broker; when it is busy a free one is taken.")
    broker_id: int = setting(
        101, "Id of the embedded broker: three or four digits.", low=100, high=9999, example="102"
    )
    memory: str = setting("384m", "Heap of the embedded broker.", kind="memory", example='"1g"')
    secure: bool = setting(
        False,
        "Have the embedded broker want passwords (SASL/SCRAM) and keep lists of who may do what. "
        "`up` gives each part a user of its own, and commands on this machine find theirs in data_dir.",
        example="true",
    )
    tls_certificate: str = setting(
        "",
        "PEM file with the certificate of a secure embedded broker, and those between it and its CA, "
        "relative to the file's folder. With it the broker speaks TLS only to clients, who find its CA by "
        "`properties`.",
        example='"tls/server.pem"',
    )
    tls_key: str = setting(
        "",
        "PEM file with the certificate's key, without a password. Empty: it is in the certificate's file.",
        example='"tls/server-key.pem"',
    )
    commands_topic: str = setting(
        "distributary.commands",
        "Topic of the commands (subscribe, begin, end) that every reducer reads.",
        example='"prod.distributary.commands"',
        check=validators.topic,
    )
    properties: Mapping[str, str] = setting(
        {},
        "Further properties for every Kafka client, under Kafka's own names (security, timeouts).",
        example='{ "security.protocol" = "SASL_SSL" }',
        secret=True,
        reserved={
            "bootstrap.servers": "use kafka.bootstrap_servers",
            **dict.fromkeys(
                ("group.id", "auto.offset.reset", "transactional.id"), "every client has its own"
            ),
        },
        # Reducers count what they read as committed, and what they wrote as kept (R7, R10).
        fixed={
            "isolation.level": ("read_committed",),
            "acks": ("all", "-1"),
            "enable.idempotence": ("true",),
            "enable.auto.commit": ("false",),
        },
    )
    start_timeout: float = setting(
        60.0, "How long to wait until the brokers answer.", unit="s", low=0.001, example='"2 minutes"'
    )


@dataclass(frozen=True, slots=True, repr=False)
class Store(Section):
    """Where rows, their log and the channels are kept: a Redis or Valkey of yours, or an embedded one."""

    url: str = setting(
        "",
        "Address of Redis or Valkey: redis://, rediss:// (TLS), unix://. Empty: an embedded one is started.",
        example='"redis://redis.internal:6379/0"',
        secret=True,
        check=validators.store_url,
    )
    shards: tuple[str, ...] = setting(
        (),
        "Addresses of several servers, in place of url: each view lives on one of them, chosen by its name.",
        example='["redis://redis-1:6379/0", "redis://redis-2:6379/0"]',
        secret=True,
        check=validators.shard,
    )
    port: int = listen_port(6379, "Port of the embedded server; when it is busy a free one is taken.")
    log_length: int = setting(
        100_000,
        "Changes kept for resuming, for each view; who was away for longer gets a snapshot.",
        unit="changes",
        low=1,
        example="1000000",
    )
    subscription_ttl: float = setting(
        60.0,
        "How long a subscription lives that no publisher renews.",
        unit="s",
        low=1,
        example='"5 minutes"',
    )
    start_timeout: float = setting(
        30.0, "How long to wait until the store answers.", unit="s", low=0.001, example='"1 minute"'
    )

    @property
    def addresses(self) -> tuple[str, ...]:
        """All servers; none when an embedded one is to be started."""
        return self.shards or ((self.url,) if self.url else ())

    def address_of(self, view: str) -> str:
        """The server that a view lives on."""
        return shard_of(view, self.addresses)


@dataclass(frozen=True, slots=True, repr=False)
class Spark(Section):
    """Where the reducers run."""

    master: str = setting(
        "",
        "The Spark master. Empty: local[N] on this machine, N being the slots.",
        example='"spark://spark-master:7077"',
        check=validators.master,
    )
    slots: int = setting(
        0,
        "Tasks that run at once; in Real-Time Mode each partition of each view needs one. 0: automatic.",
        low=0,
        high=4096,
        example="16",
    )
    memory: str = setting("1g", "Memory of the Spark driver.", kind="memory", example='"4g"')
    engine: str = setting(
        "auto",
        "How views run that do not say: Real-Time Mode, micro-batches, or what suits the view.",
        choices=ENGINES,
        example='"microbatch"',
    )
    batch_duration: float = setting(
        300.0,
        "Length of a Real-Time Mode batch. Each end costs a short pause; Spark wants 5 s or more.",
        unit="s",
        low=5,
        example='"10 minutes"',
    )
    catchup_lag: int = setting(
        20_000,
        "A backlog over this is drained in micro-batches before Real-Time Mode begins.",
        unit="records",
        low=0,
        example="100000",
    )
    fillers: int = setting(
        4,
        "Empty rows sent after each record, so that Spark hands it on instead of waiting for the next.",
        unit="rows",
        low=0,
        high=64,
        example="1",
    )
    properties: Mapping[str, str] = setting(
        {},
        "Further Spark properties, under Spark's own names.",
        example='{ "spark.ui.enabled" = "true" }',
        secret=True,
        reserved={"spark.master": "use spark.master", "spark.driver.memory": "use spark.memory"},
        # Two copies of a task would take the partition from each other again and again.
        fixed={"spark.speculation": ("false",)},
    )
    environment: tuple[str, ...] = setting(
        (),
        "Environment variables (patterns) that `up` hands on to the reducers, beside those that they need.",
        example='["AWS_*", "MODEL_PATH"]',
        check=validators.variable,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Publisher(Listening):
    """What subscribers connect to."""

    port: int = listen_port(8000, "Port for WebSocket.")
    http_port: int = listen_port(8001, "Port for SSE, static files and the metrics.")
    static_dir: str = setting(
        "", "Folder whose files are served at `/` of the HTTP port. Empty: none.", example='"/srv/page"'
    )
    max_connections: int = most_connections(10_000)
    processes: int = setting(1, "Publisher processes that share the ports.", low=1, high=256, example="4")
    queue_bytes: int = setting(
        1_048_576,
        "What may wait for one slow connection before it is closed (and may come back).",
        kind="size",
        unit="bytes",
        low=1024,
        high=1 << 40,
        example='"4 MiB"',
    )
    state_bytes: int = setting(
        268_435_456,
        "Memory of a process for first rows and resumes that connections have still to read. "
        "Joins for which there is no room wait, or are told to come back.",
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
        "Largest frame accepted from a subscriber.",
        kind="size",
        unit="bytes",
        low=1024,
        high=1 << 30,
        example='"256k"',
    )
    max_channels: int = setting(
        128, "Most channels that one connection may subscribe to.", low=1, example="512"
    )
    max_command_rate: int = setting(
        1_000,
        "Commands that one connection may send in a second. Beside them it may send one for each channel.",
        unit="commands/s",
        low=1,
        high=1_000_000,
        example="50",
    )
    max_materialized_rows: int = setting(
        100_000,
        "Most rows of one query that are kept in memory for subscribers with an order or a pace.",
        low=1,
        high=10_000_000,
        example="20_000",
    )
    max_limit: int = setting(
        1_000, "Most rows that a subscriber may ask for with `limit`.", low=1, high=100_000, example="100"
    )
    auth_timeout: float = setting(
        15.0, "How long a new connection may take to authenticate.", unit="s", low=0.001, example='"5 s"'
    )
    compression: bool = setting(
        False,
        "Compress WebSocket messages (permessage-deflate, each by itself) for clients that offer it.",
        example="true",
    )
    advertised_url: str = setting(
        "",
        "Address that subscribers are told, when a proxy stands before the publisher. Empty: host and port.",
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
        "How long caches may serve rows without asking again, in whole seconds.",
        unit="s",
        low=0,
        high=86_400,
        example='"5 s"',
    )
    cache_stale_while_revalidate: float = setting(
        5.0,
        "For how long after that caches may serve them while they ask; whole seconds, 0 for not at all.",
        unit="s",
        low=0,
        high=86_400,
        example='"30 s"',
    )
    cache_bytes: int = setting(
        268_435_456,
        "Memory for the results whose pages are being read; one result may have half of it.",
        kind="size",
        unit="bytes",
        low=1024,
        high=1 << 40,
        example='"1 GiB"',
    )
