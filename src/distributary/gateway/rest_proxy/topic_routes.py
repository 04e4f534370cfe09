"""The proxy's addresses that tell of the cluster, the same in versions 1 and 2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web

from distributary.gateway.error_codes import RestCode, api_error
from distributary.gateway.rest_proxy.media_types import reply_type
from distributary.gateway.rest_proxy.metadata_client import Cluster
from distributary.httpd.authorization import Requirement, Route, grant_of

CLUSTER: web.AppKey[Cluster] = web.AppKey("cluster", Cluster)

T = TypeVar("T")


def routes() -> list[Route]:
    """List the addresses of metadata."""
    return [
        Route("GET", "/brokers", brokers, Requirement.READ),
        Route("GET", "/topics", topics, Requirement.USER),
        Route("GET", "/topics/{topic}", topic, Requirement.TOPIC),
        Route("GET", "/topics/{topic}/partitions", partitions, Requirement.TOPIC),
        Route("GET", "/topics/{topic}/partitions/{partition}", partition, Requirement.TOPIC),
        Route("GET", "/topics/{topic}/partitions/{partition}/offsets", offsets, Requirement.TOPIC),
        Route("GET", "/v3/clusters", clusters, Requirement.USER),
        Route("GET", "/v3/clusters/{cluster}", cluster, Requirement.USER),
    ]


async def brokers(request: web.Request) -> web.Response:
    """List the brokers' ids."""
    return reply(request, {"brokers": await ask(request, Cluster.brokers)})


async def topics(request: web.Request) -> web.Response:
    """Name the topics that the caller may use or know of."""
    known = grant_of(request).may_describe
    return reply(request, [name for name in await ask(request, Cluster.topics) if known(name)])


async def topic(request: web.Request) -> web.Response:
    """Describe a topic: ``name``, ``configs``, ``partitions``."""
    return reply(request, await ask(request, Cluster.topic, request.match_info["topic"]))


async def partitions(request: web.Request) -> web.Response:
    """Describe a topic's partitions: ``partition``, ``leader``, ``replicas``."""
    return reply(request, await ask(request, Cluster.partitions, request.match_info["topic"]))


async def partition(request: web.Request) -> web.Response:
    """Describe one partition."""
    return reply(request, await ask(request, Cluster.partition, *place(request)))


async def offsets(request: web.Request) -> web.Response:
    """Give a partition's ``beginning_offset`` and ``end_offset``."""
    first, end = await ask(request, Cluster.offsets, *place(request))
    return reply(request, {"beginning_offset": first, "end_offset": end})


async def clusters(request: web.Request) -> web.Response:
    """List the one cluster, whose id version 3 wants in its addresses."""
    found = _cluster(await ask(request, Cluster.id))
    return web.json_response({"kind": "KafkaClusterList", "data": [found]})


async def cluster(request: web.Request) -> web.Response:
    """Describe the cluster."""
    return web.json_response(_cluster(await this_cluster(request)))


async def this_cluster(request: web.Request) -> str:
    """Give the id of the cluster of a version 3 address; raises 404 for another's."""
    known = await ask(request, Cluster.id)
    if request.match_info["cluster"] != known:
        raise api_error(404, "there is no cluster of that id", "GET /v3/clusters tells it")
    return known


def _cluster(number: str) -> dict[str, Any]:
    return {"kind": "KafkaCluster", "cluster_id": number}


async def ask(request: web.Request, call: Callable[..., T], *args: Any) -> T:
    """Ask the cluster without holding up the others."""
    return await asyncio.to_thread(call, request.app[CLUSTER], *args)


def place(request: web.Request) -> tuple[str, int]:
    """Read the topic and partition of an address."""
    topic, text = request.match_info["topic"], request.match_info["partition"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise api_error(RestCode.PARTITION_NOT_FOUND, f"{text[:40]!r} is no partition", "give its number")
    return topic, int(text)


def reply(request: web.Request, body: Any) -> web.Response:
    """Make a reply with no records in it."""
    return web.json_response(body, content_type=reply_type(request.headers.get("Accept", "")))
