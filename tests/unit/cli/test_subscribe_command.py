from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.clock import LIMIT
from tests.support.signed_tokens import SECRET
from tests.support.threaded_api import ThreadedApi
from tests.unit.subscriber.server import TinyPublisher

from distributary.auth import Authenticator
from distributary.cli.command_line import Args
from distributary.cli.main import main
from distributary.cli.subscribe_command import json_lines, own_token, people_lines
from distributary.config import Auth, Config
from distributary.model.position import Position
from distributary.store.memory_store import MemoryStore
from distributary.subscriber.subscribed_change import SubscribedChange

AT = Position("e", 7)


@pytest.fixture
def tiny() -> Iterator[TinyPublisher]:
    """A publisher on a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> TinyPublisher:
        publisher = TinyPublisher()
        publisher.rows = {"a": {"n": 1}, "b": {"n": 2}}
        return await publisher.start()

    publisher = asyncio.run_coroutine_threadsafe(start(), loop).result(10 * LIMIT)
    yield publisher
    asyncio.run_coroutine_threadsafe(publisher.stop(), loop).result(10 * LIMIT)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_max_0_prints_the_current_rows(tiny: TinyPublisher, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subscribe", "odds", "--url", tiny.url, "--max", "0"]) == 0
    assert capsys.readouterr().out.splitlines() == ["# 2 rows", '= a {"n":1}', '= b {"n":2}']


def test_json_prints_one_object_a_line(tiny: TinyPublisher, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subscribe", "odds", "--url", tiny.url, "--max", "0", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["rows"] == {"a": {"n": 1}, "b": {"n": 2}}


def test_ctrl_c_ends_with_status_0(tiny: TinyPublisher) -> None:
    argv = [sys.executable, "-m", "distributary.cli", "subscribe", "odds", "--url", tiny.url]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "# 2 rows\n"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=10 * LIMIT)
    assert (process.returncode, error) == (0, "")


def test_unknown_view_is_one_line(tiny: TinyPublisher, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["subscribe", "unknown", "--url", tiny.url]) == 1
    assert "unknown channel" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--where", "a >"], ["--where", "a = 1", "--key", "k"]])
def test_invalid_query_is_refused_before_connecting(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["subscribe", "odds", *words]) == 1
    assert "no stack" not in capsys.readouterr().err


def test_missing_stack_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISTRIBUTARY_CONTROL_URL", raising=False)
    assert main(["subscribe", "odds"]) == 1
    assert "no stack is running in" in capsys.readouterr().err


def test_publisher_is_found_by_the_control_api(
    control: ThreadedApi, tiny: TinyPublisher, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    publisher = replace(control.api.config.publisher, advertised_url=tiny.url)
    control.api.context.config = replace(control.api.config, publisher=publisher)
    assert main(["subscribe", "odds", "--max", "0"]) == 0
    assert "# 2 rows" in capsys.readouterr().out


def test_order_and_conflation_are_sent_to_the_publisher(
    tiny: TinyPublisher, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["subscribe", "odds", "--url", tiny.url, "--max", "0", "--order", "n desc", "--limit", "2"]
    argv += ["--conflate", "500ms", "--max-rate", "5", "--max-bytes", "64k", "--slow", "conflate"]
    assert main(argv) == 0
    data = {"conflate": "500ms", "max_rate": 5.0, "max_bytes": "64k", "slow": "conflate"}
    assert tiny.requests[-1] == {"channel": "odds?order=n%20desc&limit=2", "data": data}
    for wrong, message in (
        (["--order", "n dsc", "--limit", "1"], "character 3 of the order"),
        (["--order", "n"], "requires limit"),
        (["--conflate", "soon"], "conflate='soon'"),
    ):
        assert main(["subscribe", "odds", "--url", tiny.url, *wrong]) != 0
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "people", "json_text"),
    [
        (
            SubscribedChange("add", "k", {"d": Decimal("1.10")}, time=5, position=AT),
            '+ k {"d":1.10}',
            '{"op":"add","key":"k","time":5,"row":{"d":1.10},"position":"e:7"}',
        ),
        (
            SubscribedChange("change", "k", {"a": 2}, {"a": 2}, ("b",), 5, AT),
            '~ k {"a":2} without b',
            '{"op":"change","key":"k","time":5,"row":{"a":2},"changed":{"a":2},"gone":["b"],"position":"e:7"}',
        ),
        (
            SubscribedChange("add", "k", {"a": 2}, position=AT, at=0),
            '+ k {"a":2} at 1',
            '{"op":"add","key":"k","row":{"a":2},"at":0,"position":"e:7"}',
        ),
        (SubscribedChange("remove", "k", position=AT), "- k", '{"op":"remove","key":"k","position":"e:7"}'),
        (SubscribedChange("stale", time=9), "! the source sends no records", '{"op":"stale","time":9}'),
    ],
)
def test_change_is_formatted_for_people_and_as_json(
    change: SubscribedChange, people: str, json_text: str
) -> None:
    assert list(people_lines(change)) == [people]
    assert list(json_lines(change)) == [json_text]


async def test_own_stack_gets_a_token_signed_by_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISTRIBUTARY_CONTROL_URL", "DISTRIBUTARY_TOKEN", "DISTRIBUTARY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "distributary.toml"
    file.touch()
    assert own_token(Args(url=(), config=file)) is None, "an open stack"
    file.write_text(f'[auth]\nhmac_secret = "{SECRET}"\n')
    get = own_token(Args(url=(), config=file))
    assert get is not None
    authenticator = Authenticator(Config(auth=Auth(hmac_secret=SECRET)), MemoryStore().reader.revoked)
    assert (await authenticator.by_token(get())).may_read("odds")
    assert own_token(Args(url=["ws://elsewhere"], config=file)) is None, "not for another stack"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISTRIBUTARY_CONTROL_URL", "http://elsewhere")
    assert own_token(Args(url=(), config=None)) is None
    monkeypatch.delenv("DISTRIBUTARY_CONTROL_URL")
    assert own_token(Args(url=(), config=None)) is not None
    monkeypatch.setenv("DISTRIBUTARY_API_KEY", "k")
    assert own_token(Args(url=(), config=None)) is None, "the environment goes first"
