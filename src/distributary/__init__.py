"""Distributary: one stream of events in, a live stream of its own out for every subscriber.

::

    1  produce    records are written to a Kafka topic, the feed (``Producer``, or any Kafka client)
    2  kafka      keeps them, ordered by record key, until they are read
    3  reduce     a Spark task a partition folds each record into its row (a view is a set of rows)
    4  store      row, change and offset are written to Redis/Valkey together, or not at all
    5  publish    the publisher sends each change to whoever asked for that row (WebSocket, SSE)
    6  subscribe  a subscriber starts from a snapshot, follows, and resumes where it was
       control    beside the flow: define views, subscribe and begin over REST, see what runs
       cli        ``distributary up`` runs it all on one machine

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
