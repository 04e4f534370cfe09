"""Messages of clients become records."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_hub import LatchedReader
from tests.support.fake_view import FakeView, until

from distributary.errors import KafkaUnavailable, TopicError
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import Delivered
from distributary.model.build import Definition
from distributary.model.feed import Feed, Format
from distributary.model.view import View
from distributary.publisher.codec.codes import Refused
from distributary.publisher.websocket.client_publish import REFRESH_SECONDS, ClientPublisher, record

OPEN = Feed("moves", "game.moves", publish=True, publish_key="player")
SHUT = Feed("odds", "sport.odds")


class Kafka:
    """Accepts records; can be blocked, or made to fail."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes | None, bytes]] = []
        self.error: Exception | None = None
        self.reason = ""
        self.open = asyncio.Event()
        self.open.set()

    async def produce(self, record: OutgoingRecord) -> Delivered:
        self.records.append((record.topic, record.key, record.value or b""))
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return Delivered(record.topic, 0, 0, 0, self.reason)


def make(kafka: Kafka, store: Any = None, **more: Any) -> ClientPublisher:
    return ClientPublisher([OPEN, SHUT], store or FakeView().reader, kafka.produce, **more)


async def refused(client_publisher: ClientPublisher, channel: str, data: bytes = b"{}") -> tuple[int, bool]:
    with pytest.raises(Refused) as why:
        await client_publisher.publish(channel, data)
    return why.value.refusal.code, why.value.refusal.temporary


async def test_message_becomes_a_record_unchanged() -> None:
    kafka = Kafka()
    exact = b'{"player": "ann", "x": 12345678901234567890.10}'
    await make(kafka).publish("feed:moves", exact)
    assert kafka.records == [("game.moves", b"ann", exact)]


async def test_feed_without_publish_is_refused() -> None:
    kafka = Kafka()
    client_publisher = make(kafka)
    for channel in ("feed:odds", "feed:nothing", "feed:", "moves", "odds?where=a%3D1", "FEED:moves"):
        assert await refused(client_publisher, channel) == (103, False)
    assert kafka.records == []


async def test_error_of_kafka_is_reported() -> None:
    kafka = Kafka()
    client_publisher = make(kafka)
    kafka.error = KafkaUnavailable("no broker answers")
    assert await refused(client_publisher, "feed:moves", b'{"player":1}') == (100, True)
    kafka.error = TopicError("no such topic")
    assert await refused(client_publisher, "feed:moves", b'{"player":1}') == (100, False)
    assert client_publisher.waiting == 0


async def test_message_rejected_by_the_schema_is_a_bad_request() -> None:
    kafka = Kafka()
    kafka.reason = "$.x: 'far' is not of type 'integer'"
    with pytest.raises(Refused, match="not of type 'integer'") as why:
        await make(kafka).publish("feed:moves", b'{"player":1,"x":"far"}')
    assert (why.value.refusal.code, why.value.refusal.temporary) == (107, False)


async def test_publish_waits_for_kafka_and_is_bounded() -> None:
    kafka = Kafka()
    kafka.open.clear()
    client_publisher = make(kafka, in_flight=3)
    waiting = [
        asyncio.create_task(client_publisher.publish("feed:moves", b'{"player":%d}' % n)) for n in range(3)
    ]
    await until(lambda: len(kafka.records) == 3)
    assert not any(task.done() for task in waiting)
    assert await refused(client_publisher, "feed:moves", b'{"player":3}') == (111, True)
    kafka.open.set()
    await asyncio.gather(*waiting)
    assert [key for _, key, _ in kafka.records] == [b"0", b"1", b"2"]
    await client_publisher.publish("feed:moves", b'{"player":3}')
    assert client_publisher.waiting == 0


async def test_feed_of_a_view_accepts_messages() -> None:
    fake_view, kafka, clock = FakeView(), Kafka(), [0.0]
    client_publisher = make(kafka, fake_view.reader, clock=lambda: clock[0])
    assert await refused(client_publisher, "feed:chat") == (103, False)
    feed = Feed("chat", "game.chat", publish=True, partitioned_by="room")
    definition = Definition(View("rooms", "chat"), feed)
    fake_view.store.writer.define("rooms", definition.build, definition.text)
    assert await refused(client_publisher, "feed:chat") == (103, False)  # not looked at again so soon
    clock[0] += REFRESH_SECONDS
    await client_publisher.publish("feed:chat", b'{"room":"r1"}')
    assert kafka.records == [("game.chat", b"r1", b'{"room":"r1"}')]


async def test_publish_is_refused_when_the_store_is_down() -> None:
    latched = LatchedReader(FakeView().reader)
    latched.broken.add("views")
    kafka = Kafka()
    assert await refused(make(kafka, latched), "feed:chat") == (100, True)
    await make(kafka, latched).publish("feed:moves", b'{"player":1}')


def key_of(data: bytes, **more: Any) -> bytes | None:
    return record(Feed("f", "t", publish=True, **more), data)[0]


def test_record_key_is_read_from_the_message() -> None:
    assert key_of(b'{"a":"x","b":1.50}') is None
    assert key_of(b'{"a":"x","b":1.50}', publish_key="b") == b"1.50"
    assert key_of(b'{"a":"\\u00e9"}', publish_key="a") == "é".encode()
    assert key_of(b'{"a": true }', publish_key="a") == b"true"
    assert key_of(b'{"a":"x","b":"y"}', publish_key="a", partitioned_by="b") == b"x"
    assert key_of(b'{"a":"x","b":"y"}', partitioned_by="b") == b"y"


@pytest.mark.parametrize("data", [b'{"b":1}', b'{"a":null}', b'{"a":[1]}', b'{"a":{}}'])
def test_message_without_its_key_is_refused(data: bytes) -> None:
    with pytest.raises(Refused, match="'a' is the record's key"):
        key_of(data, publish_key="a")


@pytest.mark.parametrize(
    ("format", "data"),
    [
        ("json", b""),
        ("json", b"[]"),
        ("json", b'"x"'),
        ("json", b"1"),
        ("json", b"nonsense"),
        ("json", b'{"a":1'),
        ("json", b'{"a":nonsense}'),
        ("json", b'{"a":"\xff"}'),
        ("json", b'{"a":' + b"[" * 100_000),
        ("text", b"{}"),
        ("text", b"x"),
        ("bytes", b""),
    ],
)
def test_data_of_another_format_is_refused(format: Format, data: bytes) -> None:
    with pytest.raises(Refused) as why:
        record(Feed("f", "t", format, publish=True), data)
    assert why.value.refusal.code == 107


def test_text_and_bytes_feeds_write_the_data() -> None:
    assert record(Feed("f", "t", "text", publish=True), b'"a\\nb"') == (None, b"a\nb")
    assert record(Feed("f", "t", "bytes", publish=True), b"\xff\x00") == (None, b"\xff\x00")


@given(
    st.binary(max_size=60) | st.dictionaries(st.text(), st.integers()).map(lambda d: json.dumps(d).encode())
)
def test_accepted_json_message_is_an_object(data: bytes) -> None:
    with contextlib.suppress(Refused):
        _, value = record(OPEN, data)
        assert value == data
        assert "player" in json.loads(value)
