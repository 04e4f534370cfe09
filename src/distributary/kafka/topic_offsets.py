"""Topics: make them, describe them, find their offsets. Blocking calls; each has an end.

Offsets are those of committed records (the last stable offset is the end), as every reader here sees them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_END,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its exports are not declared
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from distributary.config.sections import Kafka
from distributary.errors import KafkaRefused, KafkaUnavailable, TopicError, TopicMissing
from distributary.kafka import availability, kafka_errors, librdkafka

TIMEOUT = 20.0
"""How long one request may take, in seconds."""

_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_NO_BROKER = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
)
_NO_LEADER_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
)
_UNKNOWN_LEADER = "No leaders found"
"""What the library says where it knows of no leader."""
_LEADER_SECONDS = 5.0
"""How long a partition that was made or moved just now may be without a leader that knows of it."""
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


class Topic(NamedTuple):
    """What tells a topic from another one under the same name, and how many partitions it has."""

    name: str
    id: str
    partitions: int


def wait_for_kafka(
    kafka: Kafka, limit: float, say: Callable[[str], None] = lambda line: None, *, patient: bool = True
) -> str:
    """Wait until a broker answers and is in service; return the cluster id.

    ``say`` hears that we wait, once, if it is not there at once. Raises `KafkaUnavailable` after ``limit``
    seconds with the address and the last thing that went wrong. Where a broker does not let us in it raises
    `KafkaRefused`: then too, or without patience as soon as one says so, or by a look at its port.
    """
    deadline = time.monotonic() + limit
    heard: list[KafkaError] = []
    handle = librdkafka.admin(kafka, on_error=heard.append)
    said = False
    while True:
        left = deadline - time.monotonic()
        try:
            seen = handle.list_topics(timeout=max(0.05, min(left, 2.0 if said and patient else 0.25)))
            if seen.brokers:
                return str(seen.cluster_id)
            heard.append(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, "no broker is in service yet"))
        except KafkaException as error:
            heard.append(error.args[0])
        handle.poll(0)  # brings on_error what librdkafka met meanwhile
        over = deadline - time.monotonic() <= 0
        barred = next((error for error in heard if kafka_errors.barred(error)), None)
        if barred is not None and (over or not patient):
            raise kafka_errors.named(barred, "connecting", kafka.bootstrap_servers)
        if over:
            security = kafka.properties.get("security.protocol")
            # A broker that is starting may hang up too: who waits for it wants no guess.
            if not patient and (wants := availability.look(kafka.bootstrap_servers, security)):
                raise kafka_errors.wrong_protocol(wants, "connecting", kafka.bootstrap_servers)
            best = _best([error.str() for error in heard])
            raise KafkaUnavailable(
                f"Kafka at {kafka.bootstrap_servers} did not answer within {limit:g} s ({best})",
                hint=kafka_errors.SILENT_HINT,
            )
        if not said:
            said = True
            say(f"waiting for Kafka at {kafka.bootstrap_servers}")
        time.sleep(0.05)


def ensure_topic(
    admin: AdminClient, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> Topic:
    """Return the topic, creating it if there is none; one that is there is left as it is.

    ``config`` has the topic's settings under Kafka's names. The replication is the cluster's default.
    """
    found = find_topic(admin, name)
    if found is not None:
        return found
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config or {}))
    try:
        admin.create_topics([wanted], request_timeout=TIMEOUT, operation_timeout=TIMEOUT)[name].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _named(error, f"topic {name} cannot be created") from None
    return wait_for_topic(admin, name)


def wait_for_topic(admin: AdminClient, name: str, partitions: int = 1) -> Topic:
    """Wait until a topic that was made or changed just now is seen with so many partitions, and has leaders.

    Brokers answer from metadata that are a moment behind the controller's. A partition whose brokers are all
    away is not waited for.
    """
    began = time.monotonic()
    while True:
        seen, waited = _described(admin, name), time.monotonic() - began
        if seen is not None and len(seen.partitions) >= partitions:
            if all(one.leader is not None for one in seen.partitions) or waited > _LEADER_SECONDS:
                return _topic(seen)
        elif waited > TIMEOUT:
            raise TopicError(f"topic {name} was created but cannot be seen", hint="Try again")
        time.sleep(0.02)


def fresh_topic(
    admin: AdminClient, name: str, partitions: int, config: Mapping[str, str] | None = None
) -> Topic:
    """Return a new topic of this name, without the records of one that was there."""
    if (old := find_topic(admin, name)) is not None:
        delete_topic(admin, name)
        deadline = time.monotonic() + TIMEOUT
        while (found := find_topic(admin, name)) is not None and found.id == old.id:  # as in ensure_topic
            if time.monotonic() > deadline:
                raise TopicError(f"topic {name} was deleted but is still seen", hint="Try again")
            time.sleep(0.02)
    return ensure_topic(admin, name, partitions, config)


def find_topic(admin: AdminClient, name: str) -> Topic | None:
    """Describe a topic; None when there is none."""
    seen = _described(admin, name)
    return None if seen is None else _topic(seen)


def _described(admin: AdminClient, name: str) -> Any:
    try:
        asked = admin.describe_topics(TopicCollection([name]), request_timeout=TIMEOUT)
        return asked[name].result()
    except KafkaException as error:
        if error.args[0].code() in _NO_TOPIC:
            return None
        raise _named(error, f"topic {name} cannot be described") from None


def _topic(seen: Any) -> Topic:
    return Topic(str(seen.name), str(seen.topic_id), len(seen.partitions))


def get_topic(admin: AdminClient, name: str) -> Topic:
    """Describe a topic; raise `TopicMissing` when there is none."""
    found = find_topic(admin, name)
    if found is None:
        raise TopicMissing(
            f"there is no topic {name}",
            hint=f"Create it with: distributary topics create {name}; or set create = true in its feed",
        )
    return found


def list_topics(admin: AdminClient) -> list[str]:
    """The names of all topics but Kafka's own, sorted."""
    try:
        names = admin.list_topics(timeout=TIMEOUT).topics
    except KafkaException as error:
        raise _named(error, "the topics cannot be listed") from None
    return sorted(name for name in names if not name.startswith("__"))


def topic_config(admin: AdminClient, name: str) -> dict[str, str]:
    """The settings in force for a topic, under Kafka's names."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    try:
        rows = admin.describe_configs([resource], request_timeout=TIMEOUT)[resource].result()
    except KafkaException as error:
        raise _named(error, f"the settings of topic {name} cannot be read") from None
    return {key: str(row.value) for key, row in rows.items()}


def is_compacted(admin: AdminClient, name: str) -> bool:
    """Whether records of a topic may vanish because later ones have the same key."""
    return "compact" in topic_config(admin, name).get("cleanup.policy", "")


def delete_topic(admin: AdminClient, name: str) -> None:
    """Delete a topic with its records; harmless when there is none."""
    try:
        admin.delete_topics([name], request_timeout=TIMEOUT, operation_timeout=TIMEOUT)[name].result()
    except KafkaException as error:
        if error.args[0].code() not in _NO_TOPIC:
            raise _named(error, f"topic {name} cannot be deleted") from None


def delete_records(admin: AdminClient, name: str, before: Mapping[int, int]) -> None:
    """Delete the records of each partition before an offset."""
    places = [TopicPartition(name, number, offset) for number, offset in before.items()]
    try:
        for answer in admin.delete_records(places, request_timeout=TIMEOUT).values() if places else ():
            answer.result()
    except KafkaException as error:
        raise _named(error, f"records of topic {name} cannot be deleted") from None


def earliest_offsets(admin: AdminClient, name: str, only: Collection[int] | None = None) -> dict[int, int]:
    """The first offset that is still there, by partition; ``only`` of these, if they are given."""
    return _offsets(admin, name, OffsetSpec.earliest(), only)  # type: ignore[no-untyped-call]


def end_offsets(admin: AdminClient, name: str, only: Collection[int] | None = None) -> dict[int, int]:
    """The offset that the next committed record will be at or after, by partition; ``only`` as above."""
    return _offsets(admin, name, OffsetSpec.latest(), only)  # type: ignore[no-untyped-call]


def end_offsets_and_epochs(admin: AdminClient, name: str) -> tuple[dict[int, int], dict[int, int]]:
    """The ends as above, and the epoch of each partition's leader: another one means another election."""
    found = _results(admin, name, OffsetSpec.latest(), None)  # type: ignore[no-untyped-call]
    return {p: one.offset for p, one in found.items()}, {p: one.leader_epoch for p, one in found.items()}


def leader_epochs(admin: AdminClient, name: str, only: Collection[int] | None = None) -> dict[int, int]:
    """The epoch of each partition's leader; ``only`` as above."""
    found = _results(admin, name, OffsetSpec.latest(), only)  # type: ignore[no-untyped-call]
    return {number: one.leader_epoch for number, one in found.items()}


def offsets_at(admin: AdminClient, name: str, time_ms: int) -> dict[int, int]:
    """The first offset whose record is of that time or later, by partition; the end where there is none."""
    ends = end_offsets(admin, name)
    found = _offsets(admin, name, OffsetSpec.for_timestamp(time_ms))
    return {number: found[number] if found.get(number, -1) >= 0 else end for number, end in ends.items()}


def _offsets(admin: AdminClient, name: str, spec: Any, only: Collection[int] | None = None) -> dict[int, int]:
    return {number: one.offset for number, one in _results(admin, name, spec, only).items()}


def read_offsets(
    admin: AdminClient, asked: Mapping[TopicPartition, Any], limit: float
) -> dict[TopicPartition, Any]:
    """Ask where partitions begin or end (by ``OffsetSpec``), of committed records. Raises KafkaException.

    Where a broker does not answer within ``limit`` seconds the library raises nothing and gives the offset
    -1001, which would be taken for a log that lost everything. -1 is an answer: no record is as late.
    Partitions that were made or moved just now are waited for.
    """
    deadline = time.monotonic() + min(limit, _LEADER_SECONDS)
    looked = False
    while True:
        try:
            return _answered(admin, asked, limit)
        except KafkaException as error:
            # The library asks the leaders that it knew of last, and looks for no others by itself.
            unknown = _UNKNOWN_LEADER in error.args[0].str() and not looked
            if not (unknown or error.args[0].code() in _NO_LEADER_YET) or time.monotonic() > deadline:
                raise
            if looked:
                time.sleep(0.05)
            looked = True
            for topic in {place.topic for place in asked}:
                admin.list_topics(topic, timeout=max(0.05, deadline - time.monotonic()))


def _answered(
    admin: AdminClient, asked: Mapping[TopicPartition, Any], limit: float
) -> dict[TopicPartition, Any]:
    answers = admin.list_offsets(
        dict(asked), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=limit
    )
    found = {place: answer.result() for place, answer in answers.items()}
    for place, one in found.items():
        if one.offset < OFFSET_END:
            words = f"no answer about the offsets of {place.topic}-{place.partition}"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, words))
    return found


def _results(admin: AdminClient, name: str, spec: Any, only: Collection[int] | None) -> dict[int, Any]:
    numbers = range(get_topic(admin, name).partitions) if only is None else only
    asked = {TopicPartition(name, number): spec for number in numbers}
    try:
        found = read_offsets(admin, asked, TIMEOUT) if asked else {}
    except KafkaException as error:
        raise _named(error, f"the offsets of topic {name} cannot be read") from None
    return {place.partition: one for place, one in found.items()}


def _named(error: KafkaException, what: str) -> TopicError | KafkaUnavailable | KafkaRefused:
    cause = error.args[0]
    if cause.code() in _NO_LEADER_YET or _UNKNOWN_LEADER in cause.str():
        return KafkaUnavailable(f"{what}: {cause.str()}", hint=kafka_errors.NO_LEADER)
    if cause.code() in _NO_BROKER:
        return KafkaUnavailable(f"{what}: Kafka does not answer ({cause.str()})", hint="Check that it runs")
    if cause.code() in _NO_TOPIC:
        return TopicMissing(f"{what}: there is no such topic")
    if cause.code() in _DENIED:
        return KafkaRefused(f"{what}: {cause.str()}", hint=kafka_errors.hint_for(cause))
    return TopicError(f"{what}: {cause.str()}", hint=kafka_errors.hint_for(cause))


def _best(trouble: list[str]) -> str:
    """The most telling of what was heard: a reason of a broker's own before a mere time-out."""
    telling = [text for text in trouble if "ailed" in text or "efused" in text or "esolve" in text]
    return (telling or trouble or ["no answer"])[-1]
