"""Error codes, as clients of Kafka REST proxies and of Confluent's schema registry know them.

The first three digits of a code are the HTTP status. The two services share some numbers with different
meanings, so each has an enum.
"""

from __future__ import annotations

from enum import IntEnum

from confluent_kafka import KafkaError

from distributary.errors import GatewayError, OffsetMissing, TopicMissing
from distributary.kafka.kafka_errors import client_kind

BAD_REQUEST = 400
UNPROCESSABLE = 422


class RestCode(IntEnum):
    """Codes of the REST proxy."""

    FORBIDDEN = 40301
    TOPIC_NOT_FOUND = 40401
    PARTITION_NOT_FOUND = 40402
    CONSUMER_INSTANCE_NOT_FOUND = 40403
    CONSUMER_FORMAT_MISMATCH = 40601
    CONSUMER_ALREADY_SUBSCRIBED = 40901
    CONSUMER_ALREADY_EXISTS = 40902
    ILLEGAL_STATE = 40903
    KEY_SCHEMA_MISSING = 42201
    VALUE_SCHEMA_MISSING = 42202
    CONVERSION_FAILED = 42203
    INVALID_CONSUMER_CONFIG = 42204
    INVALID_SCHEMA = 42205
    SERIALIZATION_FAILED = 42207
    KAFKA_ERROR = 50002
    KAFKA_RETRIABLE_ERROR = 50003
    NO_CONSUMER_AVAILABLE = 50301


class RegistryCode(IntEnum):
    """Codes of the schema registry."""

    INCOMPATIBLE_SCHEMA = 409
    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    VERSION_SOFT_DELETED = 40406
    VERSION_NOT_SOFT_DELETED = 40407
    SUBJECT_COMPATIBILITY_NOT_CONFIGURED = 40408
    SUBJECT_MODE_NOT_CONFIGURED = 40409
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_COMPATIBILITY_LEVEL = 42203
    OPERATION_NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    INVALID_SUBJECT = 42208
    REGISTRY_BUSY = 50003


def api_error(code: int, message: str, hint: str = "") -> GatewayError:
    """Create the error of a code."""
    error = GatewayError(message, hint=hint)
    error.error_code = int(code)
    return error


def status_of(code: int) -> int:
    """Return the HTTP status that belongs to a code."""
    return code if code < 1000 else code // 100


def kafka_error(error: KafkaError, where: str) -> GatewayError:
    """Translate an error that Kafka reports to a consumer; the code tells whether a retry may help."""
    kind = client_kind(error)
    if kind is OffsetMissing:
        return api_error(
            RestCode.ILLEGAL_STATE,
            f"{where}: the group has no committed offset, and auto.offset.reset is none",
            "commit or seek to an offset",
        )
    if kind is TopicMissing:
        return api_error(RestCode.TOPIC_NOT_FOUND, f"{where}: topic not found")
    retriable = error.retriable() or error.code() < 0
    code = RestCode.KAFKA_RETRIABLE_ERROR if retriable else RestCode.KAFKA_ERROR
    return api_error(code, f"{where}: {error.str()}")
