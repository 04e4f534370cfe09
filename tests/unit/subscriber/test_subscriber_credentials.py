from __future__ import annotations

import threading

import pytest

from distributary.errors import UsageError
from distributary.subscriber.subscriber_credentials import Showing

ENV = {"DISTRIBUTARY_TOKEN": "t1\n", "DISTRIBUTARY_API_KEY": "k1"}


async def test_what_is_given_goes_before_the_environment() -> None:
    given = Showing("t", env=ENV)
    assert (await given.current(), given.headers, given.renewable) == ("t", {}, False)
    assert await given.current(fresh=True) == "t", "there is no other"
    key = Showing(api_key="k", env=ENV)
    assert (await key.current(), key.headers) == (None, {"X-API-Key": "k"})


async def test_the_environment() -> None:
    found = Showing(env=ENV)
    assert (await found.current(), found.headers) == ("t1", {})
    only_key = Showing(env={"DISTRIBUTARY_API_KEY": "k1"})
    assert (await only_key.current(), only_key.headers) == (None, {"X-API-Key": "k1"})
    nothing = Showing(env={})
    assert (await nothing.current(), nothing.headers) == (None, {})


async def test_a_token_is_got_when_it_is_needed() -> None:
    threads = []

    def get() -> str:
        threads.append(threading.current_thread())
        return f"t{len(threads)}"

    showing = Showing(get_token=get, env=ENV)
    assert showing.renewable
    assert [await showing.current(), await showing.current(), await showing.current(fresh=True)] == [
        "t1",
        "t1",
        "t2",
    ]
    assert threading.main_thread() not in threads, "it may take its time"

    async def coroutine() -> str:
        return "c"

    assert await Showing("first", get_token=coroutine).current() == "first"
    assert await Showing(get_token=coroutine).current() == "c"
    assert await Showing(get_token=lambda: coroutine()).current() == "c"


def test_not_both() -> None:
    for more in ({"token": "t"}, {"get_token": lambda: "t"}):
        with pytest.raises(UsageError):
            Showing(api_key="k", **more)
