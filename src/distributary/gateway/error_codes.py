"""The numbers that clients of the REST proxy and of the schema registry know errors by.

A number's first three digits are the HTTP status. The two services give some numbers different meanings.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

from distributary.errors import GatewayError

BAD_REQUEST = 400
UNPROCESSABLE = 422

# --- the REST proxy ---
TOPIC = 40401
PARTITION = 40402
INSTANCE = 40403
LEADER = 40404
FORMAT = 40601
SUBSCRIBED = 40901
INSTANCE_TAKEN = 40902
STATE = 40903
KEY_SCHEMA = 42201
VALUE_SCHEMA = 42202
CONVERSION = 42203
CONSUMER_CONFIG = 42204
PROXY_SCHEMA = 42205
SERIALIZATION = 42207
KAFKA = 50002
KAFKA_RETRY = 50003
BUSY = 50301

# --- the schema registry ---
SUBJECT = 40401
VERSION = 40402
SCHEMA = 40403
SUBJECT_DELETED = 40404
SUBJECT_NOT_DELETED = 40405
VERSION_DELETED = 40406
VERSION_NOT_DELETED = 40407
NO_SUBJECT_CONFIG = 40408
NO_SUBJECT_MODE = 40409
INCOMPATIBLE = 409
BAD_SCHEMA = 42201
BAD_VERSION = 42202
BAD_MODE = 42203
NOT_PERMITTED = 42205
REFERENCED = 42206
BAD_SUBJECT = 42208
REGISTRY_BUSY = 50003


def refuse(number: int, message: str, hint: str = "") -> GatewayError:
    """Make the error of a number."""
    error = GatewayError(message, hint=hint)
    error.number = number
    return error


def status_of(number: int) -> int:
    """Give the HTTP status that goes with a number."""
    return number if number < 1000 else number // 100


def refused(error: KafkaError, where: str) -> GatewayError:
    """Say what Kafka said, with a number that tells whether to try again."""
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        return refuse(
            STATE,
            f"{where}: the group has no offset here, and auto.offset.reset is none",
            "commit or seek to one",
        )
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
        return refuse(TOPIC, f"{where}: there is no such topic")
    number = KAFKA_RETRY if error.retriable() or error.code() < 0 else KAFKA
    return refuse(number, f"{where}: {error.str()}")
