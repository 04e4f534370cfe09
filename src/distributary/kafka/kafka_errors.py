"""What Kafka answers when it does not do something, as errors that say where and what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from distributary.errors import (
    DistributaryError,
    GroupBusy,
    GroupMissing,
    KafkaRefused,
    KafkaUnavailable,
    TopicError,
    TopicMissing,
)

LIMIT = 20.0
"""How long one request may take, in seconds."""

SILENT_HINT = (
    "Check that it runs, that --bootstrap-server or kafka.bootstrap_servers names it, that this machine may "
    "reach it, and that kafka.properties has the security settings that it wants"
)
"""What to do when nobody answers."""

_SILENT = frozenset(
    (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
    )
)
_COORDINATOR = frozenset(
    (
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    )
)
"""The first group of a cluster waits for the topic of all offsets, others for a coordinator that moved."""
_BARRED = frozenset(
    (
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    )
)
_KINDS: Mapping[int, type[DistributaryError]] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: TopicMissing,
    KafkaError._UNKNOWN_TOPIC: TopicMissing,
    KafkaError.TOPIC_ALREADY_EXISTS: TopicError,
    KafkaError.TOPIC_EXCEPTION: TopicError,
    KafkaError.NON_EMPTY_GROUP: GroupBusy,
    KafkaError.UNKNOWN_MEMBER_ID: GroupBusy,
    KafkaError.GROUP_ID_NOT_FOUND: GroupMissing,
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC: GroupBusy,
}
NO_LEADER = "The broker that leads a partition of it is away; see: distributary topics describe TOPIC"
_SECURITY = "Check security.protocol, {} in kafka.properties or --command-config"
_ACL = "Its user lacks an ACL; one who may gives it: distributary acls add --principal User:NAME "
_STOP = "Stop its members first: distributary groups describe GROUP --members"
_HINTS: Mapping[int, str] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "List the topics with: distributary topics list",
    KafkaError._UNKNOWN_TOPIC: "List the topics with: distributary topics list",
    KafkaError.TOPIC_ALREADY_EXISTS: "Change it with: distributary topics alter, or give --if-not-exists",
    KafkaError.TOPIC_EXCEPTION: "A name has up to 249 of a-z A-Z 0-9 . _ -",
    KafkaError.INVALID_REPLICATION_FACTOR: "There must be as many brokers as replicas",
    KafkaError.INVALID_PARTITIONS: "Partitions can be added, not taken away",
    KafkaError.INVALID_REPLICA_ASSIGNMENT: "Name brokers that there are, each once a partition",
    KafkaError.NON_EMPTY_GROUP: _STOP,
    KafkaError.UNKNOWN_MEMBER_ID: _STOP,
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC: _STOP,
    KafkaError.GROUP_ID_NOT_FOUND: "List the groups with: distributary groups list",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _ACL + "--operation OPERATION --topic TOPIC",
    KafkaError.GROUP_AUTHORIZATION_FAILED: _ACL + "--operation OPERATION --group GROUP",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _ACL + "--operation OPERATION --cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _ACL + "--operation write --transactional-id ID",
    KafkaError._SSL: _SECURITY.format("ssl.truststore.location and the server's name in its certificate"),
    KafkaError.LEADER_NOT_AVAILABLE: NO_LEADER,
    KafkaError.SECURITY_DISABLED: "The brokers have no authorizer: set authorizer.class.name on them",
    KafkaError.OFFSET_OUT_OF_RANGE: "See which offsets there are: distributary topics describe TOPIC",
    KafkaError.INVALID_CONFIG: "List the settings with: distributary configs describe",
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise max.message.bytes of the topic and message.max.bytes of the client",
}


def named(error: KafkaException | KafkaError, what: str, servers: str) -> DistributaryError:
    """Turn Kafka's answer into an error; ``what`` names the topic, group, partition or property."""
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    code, text = cause.code(), cause.str().rstrip(". ") or cause.name()
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        if "idempotence" in text:  # asked of the cluster, and given to whoever may write a topic
            code = KafkaError.TOPIC_AUTHORIZATION_FAILED
        else:  # a controller may print its whole request here
            text = KafkaError(code).str()
    if code in _SILENT:
        return KafkaUnavailable(f"{what}: Kafka at {servers} does not answer ({text})", hint=SILENT_HINT)
    if barred(cause):
        hint = _HINTS.get(code, _SECURITY.format("sasl.mechanism and sasl.jaas.config"))
        return KafkaRefused(f"{what}: Kafka at {servers} does not let this client in ({text})", hint=hint)
    return _KINDS.get(code, KafkaRefused)(f"{what}: {text}", hint=_HINTS.get(code, ""))


def group_result(ask: Callable[[], Future[Any]], what: str, servers: str) -> Any:
    """As `result`, of a group's coordinator: asked again while there is none yet."""
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            found = ask().result(LIMIT + 5)
            for error in getattr(found, "errors", ()):  # of brokers whose groups a list lacks
                raise KafkaException(error)
            return found
        except KafkaException as error:
            if error.args[0].code() not in _COORDINATOR or time.monotonic() > deadline:
                raise named(error, what, servers) from None
            time.sleep(0.1)
        except TimeoutError:
            raise KafkaUnavailable(f"{what}: Kafka at {servers} does not answer", hint="Try again") from None


def barred(error: KafkaError) -> bool:
    """Whether a broker does not let the client in at all, which no waiting mends."""
    return error.code() in _BARRED


def wrong_protocol(wants: str, what: str, servers: str) -> KafkaRefused:
    """The error for a port that speaks otherwise than the client; ``wants`` is what `probe` saw."""
    return KafkaRefused(
        f"{what}: Kafka at {servers} does not let this client in ({wants})",
        hint="Set security.protocol, and sasl.* where it wants a password, in kafka.properties or "
        "--command-config",
    )


def hint_for(error: KafkaError) -> str:
    """What to do about a refusal; empty where its own words must do."""
    return _HINTS.get(error.code(), "")


def result(future: Future[Any], what: str, servers: str) -> Any:
    """Wait for an answer; raises the named error for a refusal."""
    try:
        return future.result(LIMIT + 5)
    except KafkaException as error:
        raise named(error, what, servers) from None
    except TimeoutError:
        raise KafkaUnavailable(f"{what}: Kafka at {servers} does not answer", hint="Try again") from None
