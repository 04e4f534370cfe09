"""Distributary: one stream of events in, a live stream of its own out for every subscriber.

::

    1  client      writes records to a Kafka topic, the feed (``Producer``, or any Kafka client)
    2  kafka       stores them, ordered by record key
    3  reducers    fold each record into its row: one Spark task per partition (a view is a set of rows)
    4  store       writes row, change and offset to Redis/Valkey together, or not at all
    5  publisher   sends each change to the subscribers of that row (WebSocket, SSE)
    6  subscriber  starts from a snapshot, follows the changes, and resumes where it was
       control     beside the flow: define views, subscribe and begin over REST, show what runs
       cli         ``distributary up`` runs all of it on one machine

From Python: ``async with distributary.subscribe("odds") as changes: async for change in changes: …``,
or ``subscribe_sync`` without asyncio. ``Producer`` and ``Consumer`` (``AsyncProducer``, ``AsyncConsumer``)
are Kafka clients from one JSON configuration.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributary.client import AsyncConsumer, AsyncProducer, Consumer, Producer
    from distributary.subscriber.async_subscriber import subscribe
    from distributary.subscriber.sync_subscriber import subscribe_sync

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "Producer",
    "__version__",
    "subscribe",
    "subscribe_sync",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Reducers import this package in every Spark worker: they should not pay for a WebSocket client.
    if name == "subscribe":
        return import_module("distributary.subscriber.async_subscriber").subscribe
    if name == "subscribe_sync":
        return import_module("distributary.subscriber.sync_subscriber").subscribe_sync
    if name in ("AsyncConsumer", "AsyncProducer", "Consumer", "Producer"):
        return getattr(import_module("distributary.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
