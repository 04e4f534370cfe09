"""The sections of ``distributary.toml`` besides those of the servers, and the list of all sections.

One table, longer than other modules: each setting is described here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import cast

from distributary.config import validators
from distributary.config.server_sections import (
    Control,
    Gateway,
    Listening,
    Publisher,
    Socketio,
    listen_port,
)
from distributary.config.setting_field import Section, setting
from distributary.model import value_checks
from distributary.model.sharding import shard_of


@dataclass(frozen=True, slots=True, repr=False)
class Kafka(Section):
    """The Kafka cluster that feeds come from: one of your own, or an embedded broker."""

    bootstrap_servers: str = setting(
        "",
        "Addresses of the Kafka cluster, separated by commas. Empty: an embedded broker is started.",
        example='"kafka-1:9092,kafka-2:9092"',
        aliases=("bootstrap.servers",),
        check=validators.servers,
    )
    port: int = listen_port(9092, "Port of the embedded broker; if it is in use, a free one is chosen.")
    broker_id: int = setting(
        101, "Id of the embedded broker: three or four digits.", low=100, high=9999, example="102"
    )
    memory: str = setting("384m", "Heap size of the embedded broker.", kind="memory", example='"1g"')
    secure: bool = setting(
        False,
        "Make the embedded broker require passwords (SASL/SCRAM) and check ACLs. `up` creates a user for "
        "each component, and commands on this machine find their credentials in data_dir.",
        example="true",
    )
    tls_certificate: str = setting(
        "",
        "PEM file with the certificate of a secure embedded broker and the intermediate certificates, "
        "relative to the configuration file. If it is set, clients must use TLS; they find its CA by "
        "`properties`.",
        example='"tls/server.pem"',
    )
    tls_key: str = setting(
        "",
        "PEM file with the certificate's key, without a password. Empty: the key is in the certificate's "
        "file.",
        example='"tls/server-key.pem"',
    )
    commands_topic: str = setting(
        "distributary.commands",
        "Topic of the commands (subscribe, begin, end) that every reducer reads.",
        example='"prod.distributary.commands"',
        check=value_checks.topic,
    )
    properties: Mapping[str, str] = setting(
        {},
        "Further properties of every Kafka client, by their Kafka names (security, timeouts).",
        example='{ "security.protocol" = "SASL_SSL" }',
        secret=True,
        reserved={
            "bootstrap.servers": "use kafka.bootstrap_servers",
            **dict.fromkeys(
                ("group.id", "auto.offset.reset", "transactional.id"), "each client sets its own value"
            ),
        },
        # Reducers rely on reading committed records only, and on acknowledged writes being durable (R7, R10).
        fixed={
            "isolation.level": ("read_committed",),
            "acks": ("all", "-1"),
            "enable.idempotence": ("true",),
            "enable.auto.commit": ("false",),
        },
    )
    start_timeout: float = setting(
        60.0, "How long to wait for the brokers at start.", unit="s", low=0.001, example='"2 minutes"'
    )


@dataclass(frozen=True, slots=True, repr=False)
class Store(Section):
    """The Redis or Valkey for rows, their log and the registry: one of your own, or an embedded one."""

    url: str = setting(
        "",
        "URL of Redis or Valkey: redis://, rediss:// (TLS), unix://. Empty: an embedded server is started.",
        example='"redis://redis.internal:6379/0"',
        secret=True,
        check=validators.store_url,
    )
    shards: tuple[str, ...] = setting(
        (),
        "URLs of several servers, instead of `url`: each view is stored on one of them, chosen by its name.",
        example='["redis://redis-1:6379/0", "redis://redis-2:6379/0"]',
        secret=True,
        check=validators.shard,
    )
    port: int = listen_port(6379, "Port of the embedded server; if it is in use, a free one is chosen.")
    log_length: int = setting(
        100_000,
        "Number of changes per view that are kept for resuming; a subscriber that was away for longer gets a "
        "snapshot.",
        unit="changes",
        low=1,
        example="1000000",
    )
    subscription_ttl: float = setting(
        60.0,
        "How long a subscription lives if no publisher renews it.",
        unit="s",
        low=1,
        example='"5 minutes"',
    )
    start_timeout: float = setting(
        30.0, "How long to wait for the store at start.", unit="s", low=0.001, example='"1 minute"'
    )

    @property
    def addresses(self) -> tuple[str, ...]:
        """The URLs of all servers; none if an embedded one is to be started."""
        return self.shards or ((self.url,) if self.url else ())

    def address_of(self, view: str) -> str:
        """Return the URL of the server that stores a view."""
        return shard_of(view, self.addresses)


@dataclass(frozen=True, slots=True, repr=False)
class Spark(Section):
    """The Spark that runs the reducers."""

    master: str = setting(
        "",
        "URL of the Spark master. Empty: local[N] on this machine, where N is `slots`.",
        example='"spark://spark-master:7077"',
        check=validators.master,
    )
    slots: int = setting(
        0,
        "Number of tasks that run at once; in Real-Time Mode each partition of each view needs one. 0: "
        "automatic.",
        low=0,
        high=4096,
        example="16",
    )
    memory: str = setting("1g", "Memory of the Spark driver.", kind="memory", example='"4g"')
    engine: str = setting(
        "auto",
        "How views run that do not specify it: in Real-Time Mode, in micro-batches, or whichever suits the "
        "view.",
        choices=value_checks.ENGINES,
        example='"microbatch"',
    )
    batch_duration: float = setting(
        300.0,
        "Duration of a batch in Real-Time Mode. The end of each costs a short pause; Spark requires 5 s or "
        "more.",
        unit="s",
        low=5,
        example='"10 minutes"',
    )
    catchup_lag: int = setting(
        20_000,
        "A backlog larger than this is processed in micro-batches before Real-Time Mode starts.",
        unit="records",
        low=0,
        example="100000",
    )
    fillers: int = setting(
        4,
        "Number of empty rows sent after each record, so that Spark forwards it without waiting for the next "
        "one.",
        unit="rows",
        low=0,
        high=64,
        example="1",
    )
    properties: Mapping[str, str] = setting(
        {},
        "Further Spark properties, by their Spark names.",
        example='{ "spark.ui.enabled" = "true" }',
        secret=True,
        reserved={"spark.master": "use spark.master", "spark.driver.memory": "use spark.memory"},
        # Two copies of a task would take the partition from each other again and again.
        fixed={"spark.speculation": ("false",)},
    )
    environment: tuple[str, ...] = setting(
        (),
        "Environment variables (patterns) that `up` passes on to the reducers, besides those that they need.",
        example='["AWS_*", "MODEL_PATH"]',
        check=validators.variable,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Schemas(Section):
    """The schema registry for feeds in Avro: one of your own, or the gateway of the stack."""

    url: str = setting(
        "",
        "URL of the schema registry, with user:password if it requires them. Empty: the gateway of the "
        "stack.",
        example='"https://user:password@registry.example.com"',
        secret=True,
        check=validators.registry_url,
    )
    api_key: str = setting(
        "",
        "API key for a gateway with authorization (of any user); sent as X-API-Key.",
        example='"dk_the-key-of-a-service"',
        hidden=True,
        check=validators.header,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Auth(Section):
    """Authorization: how tokens (JWT) are verified, and the API keys of services.

    Without a secret and without keys the stack is open to everyone who can reach it, and so it listens on
    loopback addresses only.
    """

    hmac_secret: str = setting(
        "",
        "Secret that signs tokens by HS256 (and HS384 or HS512, if it has 48 or 64 bytes), at least 32 "
        "bytes. Preferably set by its environment variable.",
        hidden=True,
        check=validators.hmac_secret,
    )
    previous_hmac_secrets: tuple[str, ...] = setting(
        (),
        "Earlier values of `hmac_secret`; tokens signed by them are accepted while the secret is being "
        "replaced.",
        hidden=True,
        check=validators.hmac_secret,
    )
    public_keys: tuple[str, ...] = setting(
        (),
        "PEM files of public keys that verify tokens (RSA, EC or Ed25519), relative to the configuration "
        "file. All of them are accepted, so that keys can be replaced one by one.",
        example='["keys/login.pem"]',
        secret=True,
        check=validators.pem_file,
    )
    jwks_url: str = setting(
        "",
        "URL of the key set (JWKS) for tokens signed with RSA, EC or Ed25519 keys.",
        example='"https://login.example.com/.well-known/jwks.json"',
        secret=True,
        check=validators.jwks_url,
    )
    jwks_ttl: float = setting(
        600.0, "How long a key set is cached before it is fetched again.", unit="s", low=1, example="60"
    )
    jwks_min_interval: float = setting(
        30.0,
        "Minimum time between two fetches, however many tokens refer to an unknown key.",
        unit="s",
        low=1,
        example='"10 s"',
    )
    jwks_max_age: float = setting(
        86_400.0,
        "How long cached keys are used if they cannot be fetched again; after that, tokens are rejected.",
        unit="s",
        low=1,
        example='"1 hour"',
    )
    jwks_timeout: float = setting(
        5.0, "Time for a fetch of the key set.", unit="s", low=0.1, high=60, example='"2 s"'
    )
    audience: str = setting(
        "",
        "The value that a token's aud must contain. Empty: only tokens without an aud are accepted.",
        example='"distributary"',
    )
    issuer: str = setting(
        "",
        "The value that a token's iss must have. Empty: any.",
        example='"https://login.example.com/"',
    )
    leeway: float = setting(
        30.0,
        "Tolerance for clock differences, in exp, nbf and iat.",
        unit="s",
        low=0,
        high=600,
        example='"5 s"',
    )
    require_expiry: bool = setting(
        True,
        "Whether a token without exp is rejected. Otherwise such a token is valid forever.",
        example="false",
    )
    max_token_age: float = setting(
        0.0,
        "Maximum lifetime of a token, from iat to exp: a token with a longer one, or without both, is "
        "rejected, and older revocations are deleted. 0: any, and revocations are kept forever.",
        unit="s",
        low=0,
        example='"30 days"',
    )
    claim: str = setting(
        "",
        "The claim that contains views, rows, limits and so on as an object. Empty: they are top-level "
        "claims.",
        example='"https://example.com/distributary"',
    )
    default_views: str = setting(
        "none",
        "The views that a token or key allows if it does not list any.",
        choices=("none", "all"),
        example='"all"',
    )
    revocation_delay: float = setting(
        1.0,
        "Maximum time until a revocation takes effect everywhere.",
        unit="s",
        low=0,
        high=300,
        example='"10 s"',
    )
    audit_log: str = setting(
        "",
        "File of the audit log (JSON lines: definitions, revocations, administrative calls, rejected "
        "requests). "
        'Empty: audit.log in the data folder; "-": the standard error of each component.',
        example='"/var/log/distributary/audit.log"',
    )
    functions: tuple[str, ...] = setting(
        (),
        "Python functions (module:function, or patterns with *) that may be used by views which are not "
        "defined in this file: they run in the reducers and can read everything that reducers can.",
        example='["folds.streaks:*"]',
    )
    keys: Mapping[str, str] = setting(
        {},
        "API keys of services by name: hash, expires, issued, user (if two keys belong to one user), and "
        "what each allows, named as in a token's claims. They are reloaded when the file changes.",
        example='{ reports = { hash = "sha256:'
        + "6ca13d52ca70c883e0f0bb101e425a89e8624de51db2d2392593af6a84118090"
        + '", views = ["odds"] } }',
        entry=validators.api_key,
    )

    @property
    def on(self) -> bool:
        """Whether callers must present a token or a key."""
        return bool(
            self.hmac_secret or self.previous_hmac_secrets or self.public_keys or self.jwks_url or self.keys
        )


@dataclass(frozen=True, slots=True, repr=False)
class Limits(Section):
    """What a user, an address, and all users together may use, counted across all processes.

    The ``limits`` of a token override these for its user. 0 means no limit. Without authorization only
    `queries_per_view` and `expensive_queries_per_view` apply, since only programs on this machine can
    connect. An IPv6 address is counted by its /64 network; behind a proxy (``trusted_proxies``) the client's
    address counts.
    """

    connections: int = setting(
        100_000,
        "Concurrent WebSocket connections and streams, in total over all publishers.",
        low=0,
        example="20_000",
    )
    connections_per_user: int = setting(
        1_000, "Concurrent WebSocket connections and streams per user.", low=0, example="10"
    )
    connections_per_address: int = setting(
        1_000,
        "Concurrent WebSocket connections and streams per address; addresses of this machine are exempt.",
        low=0,
        example="50",
    )
    consumers_per_user: int = setting(
        20,
        "Concurrent consumer instances and topic streams per user; each is a Kafka client of the gateway.",
        low=0,
        example="100",
    )
    queries_per_address: int = setting(
        2_000,
        "Concurrent subscriptions per address, counted as for a user; addresses of this machine are exempt.",
        low=0,
        example="200",
    )
    queries_per_view: int = setting(100_000, "Different queries per view.", low=0, example="1_000_000")
    queries_per_user: int = setting(
        20,
        "Concurrent subscriptions per user, and as many that wait for a lost client to reconnect; one that "
        "no index supports counts as `expensive_query_cost`.",
        low=0,
        example="100",
    )
    expensive_query_cost: int = setting(
        5,
        "What a query that no index supports uses of `queries_per_user`: each change of its view is checked "
        "against it.",
        low=1,
        example="50",
    )
    expensive_queries_per_view: int = setting(
        50, "Different queries per view that no index supports.", low=0, example="1_000"
    )
    requests_per_user: float = setting(
        200.0, "HTTP requests per user and second; bursts may be ten times as large.", low=0, example="50"
    )
    requests_per_address: float = setting(
        500.0,
        "HTTP requests per address and second, whatever tokens they carry; bursts may be ten times as large. "
        "Addresses of this machine are exempt.",
        low=0,
        example="100",
    )
    requests: float = setting(
        20_000.0,
        "HTTP requests per second in total; bursts may be ten times as large.",
        low=0,
        example="2_000",
    )
    cpu_ms_per_user: int = setting(
        30,
        "Milliseconds of CPU time per user and second, over all servers; bursts may be ten times as large. "
        "Requests of a user over the limit are delayed.",
        unit="ms",
        low=0,
        example="500",
    )
    bytes_per_user: int = setting(
        20_971_520,
        "Bytes that one user may send per second; bursts may be ten times as large.",
        unit="bytes",
        low=0,
        example="1_048_576",
    )
    bytes_per_address: int = setting(
        104_857_600,
        "Bytes that one address may send per second; bursts may be ten times as large. Addresses of this "
        "machine are exempt.",
        unit="bytes",
        low=0,
        example="10_485_760",
    )
    bytes: int = setting(
        1_073_741_824,
        "Bytes that all users together may send per second; bursts may be ten times as large.",
        unit="bytes",
        low=0,
        example="104_857_600",
    )


@dataclass(frozen=True, slots=True, repr=False)
class Naming(Section):
    """The naming convention for commands that create topics and groups. Not set: any name, with a warning."""

    topics: str | None = setting(
        None,
        "Regular expression that the whole name of a new topic must match; `--force` overrides it. "
        "Not set: any name, with a warning unless it looks like `sportsbook.odds`.",
        kind="string",
        optional=True,
        example=r"'(sportsbook|casino)\.[a-z.-]+'",
        check=validators.regular_expression,
    )
    groups: str | None = setting(
        None,
        "Regular expression that the whole name of a new consumer group must match; `--force` overrides it. "
        "Not set: any name, with a warning unless it looks like `shop.billing`.",
        kind="string",
        optional=True,
        example=r"'(sportsbook|casino)\.[a-z.-]+'",
        check=validators.regular_expression,
    )


@dataclass(frozen=True, slots=True)
class Sections:
    """All sections, in the order of the reference page: a new section is added here, and nowhere else."""

    kafka: Kafka = field(default_factory=Kafka)
    store: Store = field(default_factory=Store)
    spark: Spark = field(default_factory=Spark)
    publisher: Publisher = field(default_factory=Publisher)
    control: Control = field(default_factory=Control)
    gateway: Gateway = field(default_factory=Gateway)
    schemas: Schemas = field(default_factory=Schemas)
    auth: Auth = field(default_factory=Auth)
    limits: Limits = field(default_factory=Limits)
    socketio: Socketio = field(default_factory=Socketio)
    naming: Naming = field(default_factory=Naming)


SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {one.name: cast(type[Section], one.default_factory) for one in fields(Sections)}
)
SERVERS = tuple(name for name, section in SECTIONS.items() if issubclass(section, Listening))
