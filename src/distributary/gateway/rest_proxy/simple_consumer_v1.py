"""Reading one partition from an offset, by version 1."""

from __future__ import annotations

import contextlib
import time
import uuid

from aiohttp import web
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from distributary.config.sections import Kafka
from distributary.gateway.error_codes import UNPROCESSABLE, api_error, refused
from distributary.gateway.gateway_access import CONFIG
from distributary.gateway.request_fields import accepts
from distributary.gateway.response_bodies import number
from distributary.gateway.rest_proxy import topic_routes
from distributary.gateway.rest_proxy.consumer_instance import size
from distributary.gateway.rest_proxy.consumer_routes import INSTANCES, records_reply, told
from distributary.gateway.rest_proxy.media_types import Media, of_accept
from distributary.gateway.rest_proxy.metadata_client import Cluster
from distributary.httpd.authorization import Requirement, Route
from distributary.kafka import librdkafka

MAX_COUNT = 1000
_SECONDS = 10.0


def routes() -> list[Route]:
    """List the address."""
    return [Route("GET", "/topics/{topic}/partitions/{partition}/messages", read, Requirement.CONSUME)]


@accepts(query=("offset", "count"))
async def read(request: web.Request) -> web.Response:
    """Read a partition from ``offset``, at most ``count`` records; what is there now, without waiting."""
    topic, partition = topic_routes.place(request)
    if "offset" not in request.query:
        raise api_error(UNPROCESSABLE, "the parameter offset is missing")
    offset, count = number(request, "offset", 0), number(request, "count", 1, low=1, high=MAX_COUNT)
    format = of_accept(request.headers.get("Accept", "")).format or "binary"
    first, end = await topic_routes.ask(request, Cluster.offsets, topic, partition)
    if not first <= offset <= end:
        raise api_error(
            UNPROCESSABLE,
            f"offset {offset} is out of range",
            f"partition {partition} of {topic!r} has records from {first} up to {end}",
        )
    instances = request.app[INSTANCES]
    async with instances.place():
        config = request.app[CONFIG]
        found = await instances.run(_read, config.kafka, topic, partition, offset, min(end, offset + count))
    total = 0
    kept: list[Message] = []
    for message in found:
        total += size(message)
        if kept and total > config.gateway.max_body:
            break
        kept.append(message)
    records = await told(request, kept, format, with_topic=False)
    return records_reply(records, Media(1, format))


def _read(kafka: Kafka, topic: str, partition: int, offset: int, end: int) -> list[Message]:
    """Read the records from one offset up to another; blocks."""
    found: list[Message] = []
    if offset >= end:
        return found
    consumer = librdkafka.consumer(
        kafka, f"gateway-{uuid.uuid4()}", auto_offset_reset="error", enable_partition_eof=True
    )
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                break
            if error is not None:
                raise refused(error, f"partition {partition} of {topic!r}")
            # Marks of transactions have offsets too: the last one before the end may be such.
            if (message.offset() or 0) >= end:
                break
            found.append(message)
            if (message.offset() or 0) >= end - 1:
                break
    finally:
        with contextlib.suppress(KafkaException, RuntimeError):
            consumer.close()
    return found
