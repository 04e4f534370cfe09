"""What a consumer has given out, and what of it counts as read: kept apart from the reading itself."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import TopicPartition

from distributary.client.record import Record

Place = tuple[str, int]
"""A topic and one of its partitions."""


class Progress:
    """Positions by partition, each the offset after the last record."""

    def __init__(self) -> None:
        self._given: dict[Place, int] = {}
        self._under_way: dict[Place, int] = {}

    def give(self, one: Record) -> None:
        """A record is given out: it may be committed, and is under way until it is settled."""
        place = one.topic, one.partition
        self._given[place] = self._under_way[place] = one.offset + 1

    def settle(self) -> list[TopicPartition]:
        """All that is under way is read now; give its positions."""
        found = positions(self._under_way)
        self._under_way.clear()
        return found

    def given(self) -> list[TopicPartition]:
        """The positions after all that was given out since the last commit."""
        return positions(self._given)

    def committed(self) -> None:
        """All that was given out is committed."""
        self._given.clear()
        self._under_way.clear()

    def forget(self, places: Iterable[Place]) -> None:
        """These partitions are read by somebody else, or from elsewhere."""
        for place in places:
            self._given.pop(place, None)
            self._under_way.pop(place, None)


def positions(found: dict[Place, int]) -> list[TopicPartition]:
    """Positions as librdkafka has them."""
    return [TopicPartition(*place, at) for place, at in found.items()]


def places(found: Iterable[TopicPartition]) -> list[Place]:
    """The partitions of librdkafka's positions."""
    return [(one.topic, one.partition) for one in found]
