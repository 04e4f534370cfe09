"""What the proxy's routes share: reading requests, asking Kafka, and writing responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from confluent_kafka import Message

from distributary.errors import GatewayError
from distributary.gateway.error_codes import RestCode, api_error
from distributary.gateway.gateway_access import user_of
from distributary.gateway.registry.registry_requests import SCHEMA_LOG
from distributary.gateway.registry.schema_checker import DEADLINE
from distributary.gateway.rest_proxy.consumer_pool import ConsumerPool
from distributary.gateway.rest_proxy.media_types import MediaType, response_type
from distributary.gateway.rest_proxy.metadata_client import MetadataClient
from distributary.gateway.rest_proxy.record_schemas import schema_finder
from distributary.gateway.rest_proxy.serialization import SCHEMA_KINDS, FindSchema, RecordConverter
from distributary.kafka.record_producer import Delivered
from distributary.kafka.topic_writer import TopicWriter

METADATA: web.AppKey[MetadataClient] = web.AppKey("metadata", MetadataClient)
CONSUMERS: web.AppKey[ConsumerPool] = web.AppKey("consumers", ConsumerPool)
WRITER: web.AppKey[TopicWriter] = web.AppKey("writer", TopicWriter)

T = TypeVar("T")


async def ask_kafka(request: web.Request, call: Callable[..., T], *args: Any) -> T:
    """Call a (blocking) method of the `MetadataClient` in a thread."""
    return await asyncio.to_thread(call, request.app[METADATA], *args)


def partition_in_path(request: web.Request) -> tuple[str, int]:
    """Read the topic and the partition in a path."""
    topic, text = request.match_info["topic"], request.match_info["partition"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise api_error(RestCode.PARTITION_NOT_FOUND, f"invalid partition {text[:40]!r}", "give its number")
    return topic, int(text)


def converter(request: web.Request) -> RecordConverter:
    """Return a converter of records for the user who makes the request."""
    return RecordConverter(request.app[DEADLINE], user_of(request))


def json_reply(request: web.Request, body: Any) -> web.Response:
    """Create a response without records."""
    return web.json_response(body, content_type=response_type(request.headers.get("Accept", "")))


def records_reply(records: list[dict[str, Any]], media_type: MediaType) -> web.Response:
    """Create a response with records."""
    return web.Response(body=msgspec.json.encode(records), content_type=media_type.text)


async def find_schemas(request: web.Request, format: str, messages: list[Message]) -> FindSchema:
    """Return a function that finds the schemas of records, by which a format decodes them."""
    if format in SCHEMA_KINDS:
        return await schema_finder(request.app[SCHEMA_LOG], messages)
    return _no_schema


def _no_schema(id: int) -> None:
    return None


async def records_to_json(
    request: web.Request, messages: list[Message], format: str, *, with_topic: bool
) -> list[dict[str, Any]]:
    """Convert records for a response; stops before a record that cannot be read, unless it is the first."""
    find = await find_schemas(request, format, messages)
    convert = converter(request)
    records: list[dict[str, Any]] = []
    for message in messages:
        where = f"record {message.offset()} of partition {message.partition()} of {message.topic()!r}"
        try:
            key = await convert.decode(format, message.key(), find, f"the key of {where}")
            value = await convert.decode(format, message.value(), find, f"the value of {where}")
        except GatewayError:
            if records:
                return records
            raise
        record = {"key": key, "value": value, "partition": message.partition(), "offset": message.offset()}
        records.append({"topic": message.topic(), **record} if with_topic else record)
    return records


async def require_partition(request: web.Request, topic: str, partition: int | None) -> None:
    """Raise unless topic and partition exist; after that, records can be written there."""
    await ask_kafka(request, MetadataClient.check, topic, partition)
    if partition is not None:
        await request.app[WRITER].prepare(topic, partition)


def dead_letter_message(written: Delivered) -> str:
    """Describe to a client a record that was written to the dead-letter topic."""
    return f"record rejected by the topic's schema ({written.reason}); written to {written.topic}"
