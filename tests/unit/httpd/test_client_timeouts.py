from __future__ import annotations

from distributary.config import Control
from distributary.httpd.client_timeouts import MIN_RATE, Deadlines

SETTINGS = Control(header_timeout=10, body_timeout=20, write_timeout=60)


def missed(deadlines: Deadlines, now: float, *, waiting: int = 0, paused: bool = False) -> str:
    return deadlines.missed(now, waiting=waiting, paused=paused)


def test_endless_head_times_out_however_many_bytes_arrive() -> None:
    deadlines = Deadlines(SETTINGS, 0)
    for now in range(10):
        deadlines.head_started(now)  # a byte
        assert missed(deadlines, now) == ""
    assert missed(deadlines, 10.1) == "head"


def test_idle_connection_does_not_time_out() -> None:
    deadlines = Deadlines(SETTINGS, 0)
    deadlines.head_ended(1, body=False)
    assert missed(deadlines, 1000) == ""
    deadlines.head_started(1000)
    assert missed(deadlines, 1009) == ""
    assert missed(deadlines, 1011) == "head"


def test_body_of_one_byte_per_second_times_out() -> None:
    deadlines = Deadlines(SETTINGS, 0)
    deadlines.head_ended(0, body=True)
    for now in range(20):
        deadlines.body_received(1, now)
        assert missed(deadlines, now) == ""
    assert missed(deadlines, 21) == "body"


def test_long_body_at_a_sufficient_rate_does_not_time_out() -> None:
    deadlines = Deadlines(SETTINGS, 0)
    deadlines.head_ended(0, body=True)
    for now in range(1, 3600):
        deadlines.body_received(2 * MIN_RATE, now)
        assert missed(deadlines, now) == ""
    deadlines.body_ended()
    assert missed(deadlines, 90_000) == ""


def test_body_does_not_time_out_while_the_server_does_not_read() -> None:
    deadlines = Deadlines(SETTINGS, 0)
    deadlines.head_ended(0, body=True)
    for now in range(1, 500):
        assert missed(deadlines, now, paused=True) == ""
    assert missed(deadlines, 515) == ""
    assert missed(deadlines, 521) == "body"


def test_streamed_body_may_last_but_not_pause_for_ever() -> None:
    deadlines = Deadlines(SETTINGS, 0)
    deadlines.head_ended(0, body=True)
    deadlines.allow_stream(300, 0)
    for now in range(0, 86_400, 290):
        assert missed(deadlines, now) == ""
        deadlines.body_received(1, now)
    assert missed(deadlines, 86_400 + 600) == "body"


def test_the_next_request_of_a_connection_has_the_usual_deadline_again() -> None:
    deadlines = Deadlines(SETTINGS, 0)
    deadlines.head_ended(0, body=True)
    deadlines.allow_stream(300, 0)
    deadlines.head_ended(10, body=True)
    assert missed(deadlines, 31) == "body"


def test_client_that_reads_nothing_times_out() -> None:
    deadlines = Deadlines(SETTINGS, 0)
    deadlines.head_ended(0, body=False)
    assert missed(deadlines, 1, waiting=1000) == ""
    assert missed(deadlines, 60, waiting=2000) == ""
    assert missed(deadlines, 62, waiting=2000) == "write"


def test_slow_reader_is_waited_for_as_long_as_it_takes_something() -> None:
    deadlines = Deadlines(SETTINGS, 0)
    deadlines.head_ended(0, body=False)
    for now in range(0, 5000, 50):
        assert missed(deadlines, now, waiting=100_000 - now) == ""
