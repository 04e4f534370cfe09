"""The password of the embedded store: created once, used by all components, in no output."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import redis
from tests.support.clock import LIMIT
from tests.support.fake_components import EventRecorder

from distributary.config import Config, Kafka, Store
from distributary.config.embedded_defaults import store_secret
from distributary.config.private_files import read_secret
from distributary.stack import embedded_stack, stack_file
from distributary.stack.embedded_stack import Stack


async def test_only_a_private_file_shows_the_password_of_the_embedded_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_stack, "wait_for_kafka", lambda *args: "cluster")
    monkeypatch.setattr(embedded_stack, "create_topics", lambda config: None)
    given = Config(
        Kafka(bootstrap_servers="k:1"), Store(start_timeout=20 * LIMIT), data_dir=tmp_path / "data"
    )
    events, urls, argv = EventRecorder(), [], []
    for _ in range(2):
        async with Stack(given, listener=events, services=[]) as running:
            await running.wait_ready()
            urls.append(running.config.store.url)
            with redis.Redis.from_url(running.config.store.url) as client:
                assert client.ping()
            port = running.config.store.port
            with redis.Redis(port=port) as client, pytest.raises(redis.AuthenticationError):
                client.ping()
            (part,) = [part for part in running.state.components if part.name == "store"]
            assert part.pid is not None
            argv += psutil.Process(part.pid).cmdline()
    password = read_secret(store_secret(given.data_dir))
    assert password
    assert urls == [f"redis://:{password}@127.0.0.1:{port}/0"] * 2, "it stays the same"
    outputs = [(given.data_dir / stack_file.FILE).read_text(), repr(events.events), *argv]
    outputs += [path.read_text() for path in (given.data_dir / "logs").iterdir()]
    assert not [text for text in outputs if password in text]
    assert f"redis://:***@127.0.0.1:{port}/0" in repr(events.events)
