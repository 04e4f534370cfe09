"""What Kafka's error codes mean here: one table from a code to our error, its reason and what to do.

A code means something else to a producer or consumer than to an administrator of topics and groups, so the
table has a column for each. Errors are classified by their code, never by their text.
"""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from distributary.errors import (
    DistributaryError,
    GroupBusy,
    GroupMissing,
    GroupRefused,
    KafkaClientError,
    KafkaRefused,
    KafkaUnavailable,
    OffsetMissing,
    ProducerFenced,
    RecordRefused,
    TopicError,
    TopicMissing,
)


def _codes(names: str) -> frozenset[int]:
    return frozenset(getattr(KafkaError, name) for name in names.split())


UNREACHABLE = _codes(
    """_ALL_BROKERS_DOWN _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT _TRANSPORT _RESOLVE REQUEST_TIMED_OUT
    BROKER_NOT_AVAILABLE"""
)
"""No broker answered in time."""

NO_COORDINATOR = _codes("COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR")
"""A cluster's first group waits for the offsets topic, other groups for a coordinator that moved."""

NO_LEADER = _codes("NOT_LEADER_FOR_PARTITION LEADER_NOT_AVAILABLE UNKNOWN_LEADER_EPOCH FENCED_LEADER_EPOCH")
"""A partition's leader is being elected, or has moved."""

UNKNOWN_LEADER = KafkaError._NOENT
"""The library does not know a partition's leader."""

MISSING_TOPIC = _codes("UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC")

_AUTHENTICATION = _codes(
    "_AUTHENTICATION SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE"
)
_MISSING_ACL = _codes(
    """TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED"""
)

UNREACHABLE_HINT = (
    "Check that it runs, that --bootstrap-server or kafka.bootstrap_servers is its address, that this "
    "machine can reach it, and that kafka.properties has the security settings it requires"
)
"""What to do when no broker answers, for the user of a command."""
CLIENT_UNREACHABLE_HINT = (
    "Check that it runs, that bootstrap.servers is its address, and that this machine can reach it"
)
NO_LEADER_HINT = (
    "The broker that leads one of its partitions is down; see: distributary topics describe TOPIC"
)

_ACL_HINT = "The user lacks an ACL; an administrator can add it: distributary acls add --principal User:NAME "
_SECURITY_HINT = "Check security.protocol, {} in kafka.properties or --command-config"
_STOP_HINT = "Stop its members first: distributary groups describe GROUP --members"
_TLS_HINT = "ssl.truststore.location and the server's name in its certificate"
_TOPIC_NAME_HINT = "A name has up to 249 of a-z A-Z 0-9 . _ -"

# --- the table --------------------------------------------------------------------------------------------


class ForClient(NamedTuple):
    """What a code means to a producer or consumer: the class, the reason in plain words, what to do."""

    kind: type[DistributaryError]
    reason: str
    hint: str


class ForAdmin(NamedTuple):
    """What a code means to an administrator: what to do, and the class (None: the request's default)."""

    hint: str
    kind: type[DistributaryError] | None = None


class _Row(NamedTuple):
    """What some codes mean; without a column they mean nothing special there."""

    codes: frozenset[int]
    client: ForClient | None = None
    admin: ForAdmin | None = None


_NO_ANSWER = ForClient(KafkaUnavailable, "it did not respond in time", CLIENT_UNREACHABLE_HINT)
_REBALANCED = ForClient(
    GroupRefused,
    "its partitions were assigned to other members",
    "Go on polling: the new members read those records again. Poll more often than max.poll.interval.ms",
)
_TOO_LARGE = ForClient(
    RecordRefused,
    "it is larger than allowed",
    "Make it smaller, or raise max.request.size here and max.message.bytes of the topic",
)
_NO_RECORD = ForClient(
    OffsetMissing,
    "there is no record at that position",
    "Set auto.offset.reset to earliest or latest, or name a start",
)


def _denied(what: str, hint: str) -> ForClient:
    return ForClient(KafkaRefused, f"this user may not {what}", hint)


_TABLE = (
    # --- reaching the brokers ---
    _Row(UNREACHABLE, _NO_ANSWER, ForAdmin(UNREACHABLE_HINT, KafkaUnavailable)),
    _Row(NO_COORDINATOR | _codes("NETWORK_EXCEPTION NOT_LEADER_FOR_PARTITION"), _NO_ANSWER),
    _Row(_codes("LEADER_NOT_AVAILABLE"), _NO_ANSWER, ForAdmin(NO_LEADER_HINT)),
    _Row(
        _AUTHENTICATION,
        ForClient(
            KafkaRefused,
            "it does not accept the credentials",
            "Check security.protocol, sasl.mechanism and sasl.jaas.config",
        ),
        ForAdmin(_SECURITY_HINT.format("sasl.mechanism and sasl.jaas.config"), KafkaRefused),
    ),
    _Row(
        _codes("_SSL"),
        ForClient(KafkaRefused, "cannot establish a TLS connection", f"Check security.protocol, {_TLS_HINT}"),
        ForAdmin(_SECURITY_HINT.format(_TLS_HINT), KafkaRefused),
    ),
    # --- authorization ---
    _Row(
        _codes("TOPIC_AUTHORIZATION_FAILED"),
        _denied("use that topic", "Ask for an ACL on the topic"),
        ForAdmin(_ACL_HINT + "--operation OPERATION --topic TOPIC", KafkaRefused),
    ),
    _Row(
        _codes("GROUP_AUTHORIZATION_FAILED"),
        _denied("use that group", "Ask for an ACL on the group"),
        ForAdmin(_ACL_HINT + "--operation OPERATION --group GROUP", KafkaRefused),
    ),
    _Row(
        _codes("CLUSTER_AUTHORIZATION_FAILED"),
        # Clients request only idempotence of the cluster, which every user who may write a topic has.
        _denied("write any topic", "Ask for an ACL to write the topic"),
        ForAdmin(_ACL_HINT + "--operation OPERATION --cluster", KafkaRefused),
    ),
    _Row(
        _codes("TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        _denied("use that transactional.id", "Ask for an ACL on it"),
        ForAdmin(_ACL_HINT + "--operation write --transactional-id ID", KafkaRefused),
    ),
    _Row(
        _codes("SECURITY_DISABLED"),
        admin=ForAdmin("The brokers have no authorizer: set authorizer.class.name on them"),
    ),
    # --- topics ---
    _Row(
        MISSING_TOPIC,
        ForClient(TopicMissing, "there is no such topic", "Check the name, or create the topic"),
        ForAdmin("List the topics with: distributary topics list", TopicMissing),
    ),
    _Row(
        _codes("_UNKNOWN_PARTITION"),
        ForClient(TopicError, "the topic has no such partition", "Name one that it has, or none"),
    ),
    _Row(
        _codes("TOPIC_EXCEPTION"),
        ForClient(TopicError, "the topic's name is not valid", _TOPIC_NAME_HINT),
        ForAdmin(_TOPIC_NAME_HINT, TopicError),
    ),
    _Row(
        _codes("TOPIC_ALREADY_EXISTS"),
        admin=ForAdmin("Change it with: distributary topics alter, or give --if-not-exists", TopicError),
    ),
    _Row(
        _codes("INVALID_REPLICATION_FACTOR"),
        admin=ForAdmin("There must be at least as many brokers as replicas"),
    ),
    _Row(_codes("INVALID_PARTITIONS"), admin=ForAdmin("Partitions can be added, not removed")),
    _Row(
        _codes("INVALID_REPLICA_ASSIGNMENT"), admin=ForAdmin("Name existing brokers, each once a partition")
    ),
    _Row(_codes("INVALID_CONFIG"), admin=ForAdmin("List the settings with: distributary configs describe")),
    # --- records ---
    _Row(
        _codes("MSG_SIZE_TOO_LARGE"),
        _TOO_LARGE,
        ForAdmin("Raise max.message.bytes of the topic and message.max.bytes of the client"),
    ),
    _Row(_codes("RECORD_LIST_TOO_LARGE"), _TOO_LARGE),
    _Row(
        _codes("INVALID_TIMESTAMP"),
        ForClient(RecordRefused, "its timestamp is not allowed there", "Use one nearer to now"),
    ),
    _Row(
        _codes("INVALID_RECORD"),
        ForClient(RecordRefused, "the topic's rules forbid it", "A compacted topic needs a key"),
    ),
    _Row(
        _codes("_QUEUE_FULL"),
        ForClient(KafkaUnavailable, "unsent records pile up", "Check that Kafka answers, or send less"),
    ),
    _Row(
        _codes("NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        ForClient(
            KafkaUnavailable,
            "too few replicas are in sync",
            "Bring brokers back, or lower min.insync.replicas of the topic",
        ),
    ),
    _Row(
        _codes("OFFSET_OUT_OF_RANGE"),
        _NO_RECORD,
        ForAdmin("See which offsets exist: distributary topics describe TOPIC"),
    ),
    _Row(_codes("_AUTO_OFFSET_RESET _NO_OFFSET"), _NO_RECORD),
    # --- groups ---
    _Row(_codes("UNKNOWN_MEMBER_ID"), _REBALANCED, ForAdmin(_STOP_HINT, GroupBusy)),
    _Row(_codes("ILLEGAL_GENERATION REBALANCE_IN_PROGRESS _ASSIGNMENT_LOST _MAX_POLL_EXCEEDED"), _REBALANCED),
    _Row(_codes("NON_EMPTY_GROUP GROUP_SUBSCRIBED_TO_TOPIC"), admin=ForAdmin(_STOP_HINT, GroupBusy)),
    _Row(
        _codes("GROUP_ID_NOT_FOUND"),
        admin=ForAdmin("List the groups with: distributary groups list", GroupMissing),
    ),
    _Row(
        _codes("INCONSISTENT_GROUP_PROTOCOL"),
        ForClient(
            GroupRefused,
            "the group assigns partitions by another strategy",
            "Give all members of the group the same partition.assignment.strategy and group.protocol",
        ),
    ),
    _Row(
        _codes("FENCED_INSTANCE_ID"),
        ForClient(
            GroupRefused,
            "another consumer has the same group.instance.id",
            "Give each consumer one of its own, or none",
        ),
    ),
    _Row(
        _codes("INVALID_SESSION_TIMEOUT"),
        ForClient(
            GroupRefused,
            "session.timeout.ms is outside what the brokers allow",
            "See group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers",
        ),
    ),
    # --- transactions ---
    _Row(
        _codes("CONCURRENT_TRANSACTIONS"),
        ForClient(
            KafkaUnavailable,
            "the previous transaction of this transactional.id is still being completed",
            "Try again in a moment; if the error persists, check that the brokers of its partitions run",
        ),
    ),
    _Row(
        _codes("_FENCED INVALID_PRODUCER_EPOCH PRODUCER_FENCED"),
        ForClient(
            ProducerFenced,
            "another producer with this transactional.id has taken over",
            "Close this one; give each producer a transactional.id of its own",
        ),
    ),
    _Row(
        _codes("_FATAL"),
        ForClient(
            KafkaRefused,
            "the producer has stopped after a fatal error",
            "Fix the first error that was reported, then create a new producer",
        ),
    ),
)

_CLIENT = {code: row.client for row in _TABLE for code in row.codes if row.client is not None}
_ADMIN = {code: row.admin for row in _TABLE for code in row.codes if row.admin is not None}

# --- from Kafka's error to ours ---------------------------------------------------------------------------


def client_error(error: KafkaError, what: str, servers: str) -> DistributaryError:
    """The error of a producer or consumer: ``what`` failed, at which Kafka, why, and what to do."""
    text = error.str()
    meaning = _CLIENT.get(error.code())
    if meaning is None and error.retriable():
        meaning = ForClient(KafkaUnavailable, text, "Try again in a moment")
    kind, reason, hint = meaning or ForClient(KafkaClientError, text, "")
    details = f"{reason} ({text})" if text and text != reason else reason
    return kind(f"{what} failed at Kafka {servers}: {details}", hint=hint)


def admin_error(
    error: KafkaException | KafkaError, what: str, servers: str, *, writing: bool = False
) -> DistributaryError:
    """The error of a request to the cluster; ``what`` names the topic, group, partition or property.

    With ``writing`` the request was to write records: then the only request to the cluster is for
    idempotence, which every user who may write a topic has.
    """
    cause = _cause(error)
    code, text = cause.code(), _text(cause)
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        if writing:
            code = KafkaError.TOPIC_AUTHORIZATION_FAILED
        else:  # a controller may print its whole request here
            text = KafkaError(code).str()
    hint, kind = _ADMIN.get(code, ForAdmin(""))
    if code in UNREACHABLE:
        return KafkaUnavailable(f"{what}: Kafka at {servers} does not respond ({text})", hint=hint)
    if is_auth_error(cause):
        return KafkaRefused(f"{what}: Kafka at {servers} refuses the connection ({text})", hint=hint)
    return (kind or KafkaRefused)(f"{what}: {text}", hint=hint)


def topic_error(error: KafkaException | KafkaError, what: str) -> DistributaryError:
    """The error of a component's own request about a topic: `TopicError` unless the table says more."""
    cause = _cause(error)
    code, text = cause.code(), cause.str()
    if code in NO_LEADER or code == UNKNOWN_LEADER:
        return KafkaUnavailable(f"{what}: {text}", hint=NO_LEADER_HINT)
    if code in UNREACHABLE:
        return KafkaUnavailable(f"{what}: Kafka does not respond ({text})", hint="Check that it runs")
    if code in MISSING_TOPIC:
        return TopicMissing(f"{what}: there is no such topic")
    kind = KafkaRefused if code in _MISSING_ACL else TopicError
    return kind(f"{what}: {text}", hint=_ADMIN.get(code, ForAdmin("")).hint)


def write_error(error: KafkaError, what: str) -> DistributaryError:
    """The error of a component's own record: `KafkaUnavailable` if a retry may help, else `TopicError`."""
    message = f"{what} is not written: {error.str()}"
    meaning = _CLIENT.get(error.code())
    if error.retriable() or (meaning is not None and meaning.kind is KafkaUnavailable):
        return KafkaUnavailable(message, hint="Check that Kafka runs and answers")
    return TopicError(message)


def client_kind(error: KafkaError) -> type[DistributaryError]:
    """The class of `client_error`."""
    return type(client_error(error, "", ""))


def is_auth_error(error: KafkaError) -> bool:
    """Whether a broker refuses the connection itself, so that waiting does not help."""
    return error.code() in _AUTHENTICATION or error.code() == KafkaError._SSL


def is_refusal(error: KafkaError) -> bool:
    """Whether a client is refused in a way that waiting does not help."""
    meaning = _CLIENT.get(error.code())
    return meaning is not None and issubclass(meaning.kind, KafkaRefused)


def recovers_by_itself(error: KafkaError) -> bool:
    """Whether a client goes on after this error with nothing done about it."""
    return error.retriable() or _CLIENT.get(error.code()) in (_NO_ANSWER, _REBALANCED)


def _cause(error: KafkaException | KafkaError) -> KafkaError:
    found: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    return found


def _text(error: KafkaError) -> str:
    return error.str().rstrip(". ") or error.name()
