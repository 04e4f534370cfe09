"""Quotas of users, client ids and addresses: how much they may write, read and request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from distributary.config.problems import nearest
from distributary.errors import KafkaRefused, UsageError
from distributary.kafka import broker_request
from distributary.kafka.admin import Cluster
from distributary.kafka.wire_protocol import Reader, Writer

DESCRIBE, ALTER, VERSION = 48, 49, 1
TOOL = "kafka-configs.sh"

KEYS: Mapping[str, str] = {
    "producer_byte_rate": "bytes per second that it may write to each broker",
    "consumer_byte_rate": "bytes per second that it may read from each broker",
    "request_percentage": "percent of one thread of each broker that its requests may use",
    "controller_mutation_rate": "partitions per second that it may create or delete",
    "connection_creation_rate": "connections per second (of an address)",
}
KINDS: Mapping[str, str] = {"user": "user", "client": "client-id", "ip": "ip"}
"""What a quota can apply to: our name, and the protocol's."""

Entity = Mapping[str, str | None]
"""Names by kind; None is the default, for all that have no quota of their own."""


@dataclass(frozen=True)
class Quota:
    """The quotas of one user, client id, or pair of both."""

    entity: Entity
    values: Mapping[str, float]


def describe(cluster: Cluster, entity: Entity | None = None) -> list[Quota]:
    """The quotas of exactly this entity; without one, all quotas."""

    def component(writer: Writer, one: tuple[str, str | None]) -> None:
        kind, name = one
        writer.text(KINDS[kind]).number("b", 1 if name is None else 0).text(name).end()

    body = Writer().each((entity or {}).items(), component).flag(entity is not None).end()
    reader = broker_request.call(
        cluster, api=DESCRIBE, version=VERSION, body=body.written(), what="the quotas", tool=TOOL
    )
    reader.number("i")
    code, message = reader.whole("h"), reader.text()
    broker_request.check(code, message, "the quotas", cluster)
    return sorted(reader.each(_quota), key=lambda one: title(one.entity))


def alter(cluster: Cluster, entity: Entity, values: Mapping[str, float], removed: Iterable[str] = ()) -> None:
    """Set some quotas of an entity and remove others; the rest stay."""
    changes: list[tuple[str, float | None]] = [*values.items(), *((key, None) for key in removed)]

    def part(writer: Writer, one: tuple[str, str | None]) -> None:
        writer.text(KINDS[one[0]]).text(one[1]).end()

    def change(writer: Writer, one: tuple[str, float | None]) -> None:
        writer.text(one[0]).number("d", one[1] or 0.0).flag(one[1] is None).end()

    def entry(writer: Writer, one: Entity) -> None:
        writer.each(one.items(), part).each(changes, change).end()

    body = Writer().each([entity], entry).flag(False).end()
    what = f"the quota of {title(entity)}"
    reader = broker_request.call(
        cluster, api=ALTER, version=VERSION, body=body.written(), what=what, tool=TOOL
    )
    reader.number("i")

    def result(one: Reader) -> tuple[int, str | None]:
        found = one.whole("h"), one.text()
        one.each(_part)
        one.end()
        return found

    for code, message in reader.each(result):
        broker_request.check(code, message, what, cluster)


def read_values(given: Mapping[str, str]) -> dict[str, float]:
    """Parse NAME=VALUE; raises UsageError for an unknown name or a value below 0."""
    found = {}
    for name, text in given.items():
        check_key(name)
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise UsageError(f"{name}={text}: expected a number of 0 or more", hint=KEYS[name].capitalize())
        found[name] = value
    return found


def check_key(name: str) -> None:
    """Raise UsageError, with the nearest name, for an unknown quota."""
    if name not in KEYS:
        near = nearest(name, KEYS)
        hint = f'Did you mean "{near}"?' if near else f"There are: {', '.join(KEYS)}"
        raise UsageError(f'unknown quota "{name}"', hint=hint)


def title(entity: Entity) -> str:
    """Format an entity for people: ``user ann, client web``."""
    return ", ".join(
        f"{kind} {'(default)' if name is None else name}" for kind, name in sorted(entity.items())
    )


def missing(entity: Entity) -> KafkaRefused:
    """The error for a quota that is to be deleted and does not exist."""
    return KafkaRefused(f"there is no quota of {title(entity)}", hint="List them: distributary quotas list")


def _quota(reader: Reader) -> Quota:
    parts, values = reader.each(_part), reader.each(_value)
    reader.end()
    return Quota(dict(parts), dict(values))


def _part(reader: Reader) -> tuple[str, str | None]:
    kind, name = reader.text() or "", reader.text()
    reader.end()
    return {theirs: ours for ours, theirs in KINDS.items()}.get(kind, kind), name


def _value(reader: Reader) -> tuple[str, float]:
    key, value = reader.text() or "", reader.number("d")
    reader.end()
    return key, value
