"""The errors that a client meets between calls, and in callbacks."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from distributary.client.connect import BackgroundErrors, CallbackErrors
from distributary.errors import KafkaRefused


def test_background_errors_tell_a_refusal_from_a_lost_connection() -> None:
    background = BackgroundErrors()
    background(KafkaError(KafkaError._TRANSPORT, "refused by a:1"))
    background(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert background.refusal("x", "a:1") is None
    assert "within 2 s (refused by a:1)" in str(background.no_answer("connecting", "a:1", 2))
    background(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    assert isinstance(background.refusal("x", "a:1"), KafkaRefused)


def test_callback_errors_raise_the_first_one_once() -> None:
    errors = CallbackErrors()
    called: list[int] = []

    def callback(n: int) -> None:
        called.append(n)
        if n:
            raise KeyboardInterrupt(n)

    wrapped = errors.wrap(callback)
    for n in (0, 1, 2):
        wrapped(n)
    assert called == [0, 1, 2]
    with pytest.raises(KeyboardInterrupt, match="1"):
        errors.raise_first()
    errors.raise_first()
