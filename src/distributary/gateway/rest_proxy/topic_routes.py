"""Routes of versions 1 and 2 that read topics: ``/brokers``, ``/topics`` and records from an offset."""

from __future__ import annotations

import contextlib
import time
import uuid

from aiohttp import web
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from distributary.config.sections import Kafka
from distributary.gateway.error_codes import UNPROCESSABLE, api_error, kafka_error
from distributary.gateway.gateway_access import CONFIG
from distributary.gateway.request_fields import accepts, number
from distributary.gateway.rest_proxy.consumer_instance import up_to_bytes
from distributary.gateway.rest_proxy.metadata_client import MetadataClient
from distributary.gateway.rest_proxy.proxy_requests import (
    CONSUMERS,
    MediaType,
    ask_kafka,
    json_reply,
    parse_accept,
    partition_in_path,
    records_reply,
    records_to_json,
)
from distributary.httpd.authorization import Requirement, Route, grant_of
from distributary.kafka import librdkafka

MAX_COUNT = 1000
"""The most records of a response of `list_messages`."""
_TIMEOUT = 10.0


def routes() -> list[Route]:
    """List the routes."""
    return [
        Route("GET", "/brokers", list_brokers, Requirement.READ),
        Route("GET", "/topics", list_topics, Requirement.USER),
        Route("GET", "/topics/{topic}", show_topic, Requirement.TOPIC),
        Route("GET", "/topics/{topic}/partitions", list_partitions, Requirement.TOPIC),
        Route("GET", "/topics/{topic}/partitions/{partition}", show_partition, Requirement.TOPIC),
        Route("GET", "/topics/{topic}/partitions/{partition}/offsets", show_offsets, Requirement.TOPIC),
        Route("GET", "/topics/{topic}/partitions/{partition}/messages", list_messages, Requirement.CONSUME),
    ]


async def list_brokers(request: web.Request) -> web.Response:
    """List the brokers' ids."""
    return json_reply(request, {"brokers": await ask_kafka(request, MetadataClient.brokers)})


async def list_topics(request: web.Request) -> web.Response:
    """List the topics that the caller may describe."""
    may_describe = grant_of(request).may_describe
    topics = await ask_kafka(request, MetadataClient.topics)
    return json_reply(request, [name for name in topics if may_describe(name)])


async def show_topic(request: web.Request) -> web.Response:
    """Describe a topic: ``name``, ``configs``, ``partitions``."""
    found = await ask_kafka(request, MetadataClient.topic, request.match_info["topic"])
    return json_reply(request, found)


async def list_partitions(request: web.Request) -> web.Response:
    """Describe a topic's partitions: ``partition``, ``leader``, ``replicas``."""
    found = await ask_kafka(request, MetadataClient.partitions, request.match_info["topic"])
    return json_reply(request, found)


async def show_partition(request: web.Request) -> web.Response:
    """Describe one partition."""
    found = await ask_kafka(request, MetadataClient.partition, *partition_in_path(request))
    return json_reply(request, found)


async def show_offsets(request: web.Request) -> web.Response:
    """Return a partition's ``beginning_offset`` and ``end_offset``."""
    first, end = await ask_kafka(request, MetadataClient.offsets, *partition_in_path(request))
    return json_reply(request, {"beginning_offset": first, "end_offset": end})


@accepts(query=("offset", "count"))
async def list_messages(request: web.Request) -> web.Response:
    """Read a partition from ``offset``, at most ``count`` records, without waiting for more (version 1)."""
    topic, partition = partition_in_path(request)
    if "offset" not in request.query:
        raise api_error(UNPROCESSABLE, "the parameter offset is missing")
    offset, count = number(request, "offset", 0), number(request, "count", 1, low=1, high=MAX_COUNT)
    format = parse_accept(request.headers.get("Accept", "")).format or "binary"
    first, end = await ask_kafka(request, MetadataClient.offsets, topic, partition)
    if not first <= offset <= end:
        raise api_error(
            UNPROCESSABLE,
            f"offset {offset} is out of range",
            f"partition {partition} of {topic!r} has records from {first} up to {end}",
        )
    consumers, config = request.app[CONSUMERS], request.app[CONFIG]
    async with consumers.slot():
        found = await consumers.run(
            _read_range, config.kafka, topic, partition, offset, min(end, offset + count)
        )
    messages = up_to_bytes(found, config.gateway.max_body)
    records = await records_to_json(request, messages, format, with_topic=False)
    return records_reply(records, MediaType(1, format))


def _read_range(kafka: Kafka, topic: str, partition: int, offset: int, end: int) -> list[Message]:
    """Read the records from one offset up to another; blocks."""
    found: list[Message] = []
    if offset >= end:
        return found
    consumer = librdkafka.consumer(
        kafka, f"gateway-{uuid.uuid4()}", auto_offset_reset="error", enable_partition_eof=True
    )
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                break
            if error is not None:
                raise kafka_error(error, f"partition {partition} of {topic!r}")
            # Transaction markers have offsets too: the last one before the end may be one.
            if (message.offset() or 0) >= end:
                break
            found.append(message)
            if (message.offset() or 0) >= end - 1:
                break
    finally:
        with contextlib.suppress(KafkaException, RuntimeError):
            consumer.close()
    return found
