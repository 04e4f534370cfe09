"""What the proxy's routes share: media types, reading requests, asking Kafka, and writing responses.

The media types are ``application/vnd.kafka[.FORMAT].vN+json``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
from aiohttp import web
from confluent_kafka import Message

from distributary.errors import GatewayError
from distributary.gateway.error_codes import RestCode, api_error
from distributary.gateway.gateway_access import user_of
from distributary.gateway.registry.registry_requests import SCHEMA_LOG
from distributary.gateway.registry.schema_checker import DEADLINE
from distributary.gateway.rest_proxy.consumer_pool import ConsumerPool
from distributary.gateway.rest_proxy.metadata_client import MetadataClient
from distributary.gateway.rest_proxy.record_schemas import schema_finder
from distributary.gateway.rest_proxy.serialization import FORMATS, SCHEMA_KINDS, FindSchema, RecordConverter
from distributary.httpd.content_negotiation import choose
from distributary.kafka.record_producer import Delivered
from distributary.kafka.topic_writer import TopicWriter

METADATA: web.AppKey[MetadataClient] = web.AppKey("metadata", MetadataClient)
CONSUMERS: web.AppKey[ConsumerPool] = web.AppKey("consumers", ConsumerPool)
WRITER: web.AppKey[TopicWriter] = web.AppKey("writer", TopicWriter)

LATEST_VERSION = 2
_MEDIA_TYPE = re.compile(r"application/vnd\.kafka(?:\.(\w+))?(?:\.v([12]))?\+json")
_EXPECTED_TYPE = f"application/vnd.kafka.FORMAT.v2+json, where FORMAT is one of {', '.join(FORMATS)}"

T = TypeVar("T")


# --- media types ---


class MediaType(NamedTuple):
    """A version of the API (0: not given), and the format of embedded records ("": not given)."""

    version: int = LATEST_VERSION
    format: str = ""

    @property
    def text(self) -> str:
        """Its text in headers."""
        return f"application/vnd.kafka.{f'{self.format}.' if self.format else ''}v{self.version}+json"


def parse_content_type(header: str) -> MediaType:
    """Parse a Content-Type; plain JSON, or none, means the latest version. Raises GatewayError (415)."""
    kind = header.partition(";")[0].strip().lower()
    if kind in ("", "application/json", "application/octet-stream"):
        return MediaType()
    found = _parse_media_type(kind)
    if found is None:
        raise api_error(415, f"content type {kind[:80]!r} is not supported", f"send {_EXPECTED_TYPE}")
    return found


def parse_accept(header: str) -> MediaType:
    """Choose the supported type that an Accept header prefers. Raises GatewayError (406)."""
    kinds = [part.partition(";")[0].strip().lower() for part in header.split(",")]
    known = [kind for kind in kinds if _parse_media_type(kind) is not None]
    best = choose(header, [*known, "application/json"])
    if best is None:
        raise api_error(
            RestCode.CONSUMER_FORMAT_MISMATCH,
            f"none of the types {header[:120]!r} is offered",
            f"accept {_EXPECTED_TYPE}",
        )
    return _parse_media_type(best) or MediaType(0)


def _parse_media_type(kind: str) -> MediaType | None:
    found = _MEDIA_TYPE.fullmatch(kind)
    if found is None:
        return None
    name, version = found[1] or "", int(found[2] or LATEST_VERSION)
    if name in ("v1", "v2"):  # "application/vnd.kafka.v1+json": what looks like a format is the version
        name, version = "", int(name[1])
    return MediaType(version, name) if name in ("", *FORMATS) else None


def response_type(accept: str) -> str:
    """Return the type of a response without records, by the request's Accept header."""
    media_type = parse_accept(accept)
    return MediaType(media_type.version).text if media_type.version else "application/json"


# --- requests ---


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


async def require_partition(request: web.Request, topic: str, partition: int | None) -> None:
    """Raise unless topic and partition exist; after that, records can be written there."""
    await ask_kafka(request, MetadataClient.check, topic, partition)
    if partition is not None:
        await request.app[WRITER].prepare(topic, partition)


# --- responses ---


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


def dead_letter_message(written: Delivered) -> str:
    """Describe to a client a record that was written to the dead-letter topic."""
    return f"record rejected by the topic's schema ({written.reason}); written to {written.topic}"
