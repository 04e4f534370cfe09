"""What a client remembers of the errors that it meets between calls."""

from __future__ import annotations

from confluent_kafka import KafkaError

from distributary.client.connect import BackgroundErrors
from distributary.errors import KafkaRefused


def test_background_errors_tell_a_refusal_from_a_lost_connection() -> None:
    background = BackgroundErrors()
    background(KafkaError(KafkaError._TRANSPORT, "refused by a:1"))
    background(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert background.refusal("x", "a:1") is None
    assert "within 2 s (refused by a:1)" in str(background.no_answer("connecting", "a:1", 2))
    background(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    assert isinstance(background.refusal("x", "a:1"), KafkaRefused)
