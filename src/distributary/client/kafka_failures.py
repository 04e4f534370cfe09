"""From an error of Kafka's to one that says what, where, and what to do."""

from __future__ import annotations

from confluent_kafka import KafkaError

from distributary.errors import (
    DistributaryError,
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

Meaning = tuple[type[DistributaryError], str, str]
"""The class, what it means in plain words, and what to do."""

_AWAY: Meaning = (
    KafkaUnavailable,
    "it did not answer in time",
    "Check that it runs, that bootstrap.servers names it, and that this machine may reach it",
)
_NO_TOPIC: Meaning = (TopicMissing, "there is no such topic", "Check the name, or create the topic")
_NO_PARTITION: Meaning = (TopicError, "the topic has no such partition", "Name one that it has, or none")
_BAD_NAME: Meaning = (TopicError, "that is no name for a topic", "Use up to 249 of a-z A-Z 0-9 . _ -")
_FULL: Meaning = (KafkaUnavailable, "records pile up unsent", "Check that Kafka answers, or send less")
_BAD_TIME: Meaning = (RecordRefused, "its timestamp is not allowed there", "Use one nearer to now")
_FORBIDDEN: Meaning = (RecordRefused, "the topic's rules forbid it", "A compacted topic needs a key")
_LARGE: Meaning = (
    RecordRefused,
    "it is larger than is allowed",
    "Make it smaller, or raise max.request.size here and max.message.bytes of the topic",
)
_REPLICAS: Meaning = (
    KafkaUnavailable,
    "too few replicas are in sync",
    "Bring brokers back, or lower min.insync.replicas of the topic",
)
_LOGIN: Meaning = (
    KafkaRefused,
    "it does not accept the credentials",
    "Check security.protocol, sasl.mechanism and sasl.jaas.config",
)
_SSL: Meaning = (
    KafkaRefused,
    "no secure connection could be made",
    "Check security.protocol, ssl.truststore.location and the server's name in its certificate",
)
_ENDING: Meaning = (
    KafkaUnavailable,
    "the last transaction of this transactional.id is still being ended",
    "Try again in a moment; if it goes on, check that the brokers of its partitions run",
)
_MOVED: Meaning = (
    GroupRefused,
    "its partitions have gone to others meanwhile",
    "Go on polling: who has them now reads those records again. Poll more often than max.poll.interval.ms",
)
_FENCED: Meaning = (
    ProducerFenced,
    "another producer with this transactional.id has taken over",
    "Close this one; give each producer a transactional.id of its own",
)
_SOON = "Try again in a moment"


def _denied(what: str, hint: str) -> Meaning:
    return KafkaRefused, f"this user may not {what}", hint


_NO_WRITING = _denied("write any topic", "Ask for an ACL to write the topic")

_MEANINGS: dict[int, Meaning] = {
    **dict.fromkeys(
        (
            KafkaError._MSG_TIMED_OUT,
            KafkaError._TIMED_OUT,
            KafkaError._TIMED_OUT_QUEUE,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TRANSPORT,
            KafkaError._RESOLVE,
            KafkaError.REQUEST_TIMED_OUT,
            KafkaError.BROKER_NOT_AVAILABLE,
            KafkaError.NETWORK_EXCEPTION,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            KafkaError.NOT_COORDINATOR,
            KafkaError.LEADER_NOT_AVAILABLE,
            KafkaError.NOT_LEADER_FOR_PARTITION,
        ),
        _AWAY,
    ),
    **dict.fromkeys((KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC), _NO_TOPIC),
    KafkaError._UNKNOWN_PARTITION: _NO_PARTITION,
    KafkaError.TOPIC_EXCEPTION: _BAD_NAME,
    **dict.fromkeys((KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE), _LARGE),
    **dict.fromkeys((KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND), _REPLICAS),
    KafkaError.CONCURRENT_TRANSACTIONS: _ENDING,
    KafkaError._QUEUE_FULL: _FULL,
    KafkaError.INVALID_TIMESTAMP: _BAD_TIME,
    KafkaError.INVALID_RECORD: _FORBIDDEN,
    **dict.fromkeys((KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED), _LOGIN),
    KafkaError.UNSUPPORTED_SASL_MECHANISM: _LOGIN,
    KafkaError._SSL: _SSL,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _denied("use that topic", "Ask for an ACL on the topic"),
    KafkaError.GROUP_AUTHORIZATION_FAILED: _denied("use that group", "Ask for an ACL on the group"),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _denied("do that", "Ask for an ACL on the cluster"),
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _denied(
        "use that transactional.id", "Ask for an ACL on it"
    ),
    **dict.fromkeys(
        (
            KafkaError.ILLEGAL_GENERATION,
            KafkaError.UNKNOWN_MEMBER_ID,
            KafkaError.REBALANCE_IN_PROGRESS,
            KafkaError._ASSIGNMENT_LOST,
            KafkaError._MAX_POLL_EXCEEDED,
        ),
        _MOVED,
    ),
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: (
        GroupRefused,
        "the group shares partitions out by another rule",
        "Give all of the group the same partition.assignment.strategy and group.protocol",
    ),
    KafkaError.FENCED_INSTANCE_ID: (
        GroupRefused,
        "another consumer has the same group.instance.id",
        "Give each consumer one of its own, or none",
    ),
    KafkaError.INVALID_SESSION_TIMEOUT: (
        GroupRefused,
        "session.timeout.ms is outside what the brokers allow",
        "See group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers",
    ),
    **dict.fromkeys(
        (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._NO_OFFSET),
        (
            OffsetMissing,
            "there is no record at that position",
            "Set auto.offset.reset to earliest or latest, or name a start",
        ),
    ),
    KafkaError._FATAL: (
        KafkaRefused,
        "the producer has met an error that ended it",
        "Mend what was told first, and make another producer",
    ),
    **dict.fromkeys(
        (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED), _FENCED
    ),
}


def named(error: KafkaError, what: str, servers: str) -> DistributaryError:
    """An error that says ``what`` did not go, of which Kafka, why, and what to do."""
    own = error.str()
    unknown: Meaning = (KafkaUnavailable, own, _SOON) if error.retriable() else (KafkaClientError, own, "")
    kind, why, hint = _MEANINGS.get(error.code(), unknown)
    if error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED and "idempotence" in own:
        kind, why, hint = _NO_WRITING
    told = f"{why} ({own})" if own and own != why else why
    return kind(f"{what} failed at Kafka {servers}: {told}", hint=hint)


class Trouble:
    """Hears what a client meets between calls, so that the next call can say why it waits in vain."""

    def __init__(self) -> None:
        self._refused: KafkaError | None = None
        self._last = ""

    def __call__(self, error: KafkaError) -> None:
        """Take note of one error."""
        kind = _MEANINGS.get(error.code(), _AWAY)[0]
        if issubclass(kind, KafkaRefused):
            self._refused = error
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last:  # that one only sums up
            self._last = error.str()

    def refused(self, what: str, servers: str) -> DistributaryError | None:
        """The error that no waiting mends, if there was one."""
        return None if self._refused is None else named(self._refused, what, servers)

    def away(self, what: str, servers: str, seconds: float, wants: str = "") -> DistributaryError:
        """That there was no answer, and the last thing that was heard.

        ``wants`` is what `distributary.kafka.availability` saw of a port that is there.
        """
        if wants:
            hint = "Set security.protocol to what that port speaks, and sasl.* where it wants a password"
            return KafkaRefused(f"{what} failed at Kafka {servers}: {wants}", hint=hint)
        told = f"Kafka {servers} did not answer within {seconds:g} s ({self._last or 'nothing was heard'})"
        return KafkaUnavailable(f"{what} failed: {told}", hint=_AWAY[2])


def waits(error: KafkaError) -> bool:
    """Whether an error only says that something cannot be done at the moment."""
    return error.retriable() or _MEANINGS.get(error.code()) in (_AWAY, _MOVED)
