"""The producer and the consumer, by one JSON configuration for Java, C and Python."""

from distributary.client.aio import AsyncConsumer, AsyncProducer
from distributary.client.configuration import Configuration, read_configuration
from distributary.client.consumer import Consumer
from distributary.client.deduplication import Deduplicator
from distributary.client.exactly_once import exactly_once
from distributary.client.producer import Producer
from distributary.client.record import Record, Sent

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "Configuration",
    "Consumer",
    "Deduplicator",
    "Producer",
    "Record",
    "Sent",
    "exactly_once",
    "read_configuration",
]
