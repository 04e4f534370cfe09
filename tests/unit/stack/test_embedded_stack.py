"""A stack over an external Kafka and store, and the environment of its services."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.fake_components import SERVE, EventRecorder
from tests.support.servers import free_port

from distributary.config import Config, Kafka, Store, load
from distributary.errors import ConfigError, DataFolderBusy, KafkaUnavailable, StackError, StoreUnavailable
from distributary.httpd import dev_certificates
from distributary.stack import embedded_stack, prerequisites, stack_file
from distributary.stack.embedded_stack import Stack
from distributary.stack.stack_components import Service


def config(folder: Path, limit: float = 0.5) -> Config:
    return Config(
        kafka=Kafka(bootstrap_servers=f"127.0.0.1:{free_port()}", start_timeout=limit),
        store=Store(url=f"redis://127.0.0.1:{free_port()}/0", start_timeout=limit),
        data_dir=folder / "data",
    )


async def test_external_kafka_that_is_not_responding_is_named_after_a_timeout(tmp_path: Path) -> None:
    given, events = config(tmp_path), EventRecorder()
    given = replace(given, store=replace(given.store, start_timeout=30.0))
    async with Stack(given, listener=events, services=[]) as running:
        with pytest.raises(KafkaUnavailable, match=given.kafka.bootstrap_servers):
            await running.wait_ready()
    assert {event.component for event in events.of("waiting")} == {"kafka", "store"}
    seen = stack_file.read(given.data_dir)
    assert seen is not None
    assert seen.state == "stopped"


async def test_external_store_that_is_not_responding_is_named_after_a_timeout(tmp_path: Path) -> None:
    given = config(tmp_path)
    given = replace(given, kafka=replace(given.kafka, start_timeout=2.0))
    async with Stack(given, services=[]) as running:
        with pytest.raises(StoreUnavailable, match=given.store.url):
            await running.wait_ready()


async def test_stack_file_names_the_certificates_for_local_clients(tmp_path: Path) -> None:
    dev_certificates.create_ca(tmp_path)
    made = dev_certificates.create_server(tmp_path, ["localhost"])
    tls: dict[str, Any] = {"tls_certificate": str(made.certificate), "tls_key": str(made.key)}
    given = config(tmp_path)
    given = replace(given, control=replace(given.control, **tls), gateway=replace(given.gateway, **tls))
    async with Stack(given, services=[]):
        seen = stack_file.running(given.data_dir)
    assert seen is not None
    assert seen.certificates == [str(made.certificate)]


async def test_unusable_certificate_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    given = config(tmp_path)
    given = replace(given, gateway=replace(given.gateway, tls_certificate=str(tmp_path / "none.pem")))
    with pytest.raises(ConfigError, match=r"gateway\.tls_certificate: .*none\.pem cannot be read"):
        await Stack(given, services=[]).__aenter__()
    assert not given.data_dir.exists()


async def test_second_stack_in_a_folder_is_refused(tmp_path: Path) -> None:
    given = config(tmp_path, limit=20 * LIMIT)
    async with Stack(given, services=[]):
        with pytest.raises(DataFolderBusy):
            await Stack(given, services=[]).__aenter__()
        assert stack_file.running(given.data_dir) is not None
    async with Stack(given, services=[]):
        pass


async def test_stack_that_was_not_entered_raises(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="not entered"):
        await Stack(config(tmp_path)).wait_ready()
    with pytest.raises(StackError, match="not entered"):
        _ = Stack(config(tmp_path)).state


TELLS = """
import json, os
names = [name for name in os.environ if name.startswith("DISTRIBUTARY_")] + ["JAVA_HOME"]
found = json.dumps({name: os.environ.get(name) for name in names})
open(os.environ["DISTRIBUTARY_TEST_OUT"], "w").write(found)
"""


async def test_services_get_addresses_ports_and_marks_by_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def there(*args: object) -> None: ...

    monkeypatch.setenv("DISTRIBUTARY_TEST_OUT", str(tmp_path / "out"))
    monkeypatch.setattr(embedded_stack, "wait_for_store", there)
    monkeypatch.setattr(embedded_stack, "wait_for_kafka", lambda *args: "cluster")
    monkeypatch.setattr(embedded_stack, "create_topics", lambda config: None)
    monkeypatch.setattr(embedded_stack, "apply", lambda config: ["view odds: new"])
    found = prerequisites.Found(None, None, Path("/java"))
    monkeypatch.setattr(prerequisites, "check", lambda *args: found)
    given = replace(config(tmp_path), path=tmp_path / "distributary.toml")
    events = EventRecorder()
    async with Stack(
        given, listener=events, services=[Service("control", [sys.executable, "-c", TELLS + SERVE])]
    ) as running:
        await running.wait_ready()
        chosen = running.config
        assert running.state.state == "ready"
        assert running.addresses["control"] == "http://x"
        variables = json.loads((tmp_path / "out").read_text())
        own = running.state.stack
    assert [event.message for event in events.of("note")] == ["view odds: new"]
    assert variables == variables | {
        "DISTRIBUTARY_CONFIG": str(tmp_path / "distributary.toml"),
        "DISTRIBUTARY_DATA_DIR": str(given.data_dir),
        "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": given.kafka.bootstrap_servers,
        "DISTRIBUTARY_STORE_URL": given.store.url,
        "DISTRIBUTARY_STORE_SHARDS": "",
        "DISTRIBUTARY_CONTROL_PORT": str(chosen.control.port),
        "DISTRIBUTARY_PUBLISHER_PORT": str(chosen.publisher.port),
        "DISTRIBUTARY_PUBLISHER_HTTP_PORT": str(chosen.publisher.http_port),
        "DISTRIBUTARY_STACK": own,
        "DISTRIBUTARY_COMPONENT": "control",
        "JAVA_HOME": "/java",
    }


async def test_file_with_secrets_that_others_can_read_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "distributary.toml"
    file.write_text(
        '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[store]\nurl = "redis://:hunter2@127.0.0.1:1/0"\n'
    )
    events = EventRecorder()
    for mode in (0o600, 0o644):
        file.chmod(mode)
        async with Stack(load(file, env={}), listener=events, services=[]):
            pass
    (note,) = [event.message for event in events.of("note")]
    assert f"{file} contains secrets (store.url) that other users can read" in note
    assert "hunter2" not in repr(events.events)
