"""The source tree shows the flow: a stage knows only what stands before it, and the tests mirror it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "distributary"
TESTS = ROOT / "tests"

BASE = ("errors", "heartbeat", "deadline", "model", "config")
STAGES = (
    "setup",
    "httpd",
    "kafka",
    "client",
    "store",
    "auth",
    "reducers",
    "publisher",
    "subscriber",
    "socketio_gateway",
)
BESIDE = ("control", "gateway", "stack", "workers", "demo", "cli", "docgen")

SEES = {
    **{name: set(BASE) for name in BASE},
    **{stage: {*BASE, *STAGES[:at]} for at, stage in enumerate(STAGES)},
    "httpd": set(BASE),
    "control": {*BASE, *STAGES, "stack"},
    "gateway": {*BASE, *STAGES, "control"},
    "stack": {*BASE, *STAGES, "control"},
    "workers": {*BASE, *STAGES, "stack"},
    "demo": {*BASE, *STAGES, "control", "stack"},
    "cli": {*BASE, *STAGES, "control", "gateway", "stack", "workers", "demo"},
    "docgen": {*BASE, *STAGES, "control", "gateway", "stack", "workers", "demo", "cli"},
}
"""What each part may import, besides itself and the package's own version."""

THROUGH = {
    "config.listening": "tests/unit/config/test_overlay.py",
    "cli.output": "tests/unit/cli/test_config.py",
    "cli.parsers": "tests/unit/cli/test_main.py",
    "cli.settings_text": "tests/unit/cli/test_help.py",
    "cli.up": "tests/e2e/test_up.py",
    "client.connecting": "tests/integration/client/test_producer.py",
    "client.outlet": "tests/integration/client/test_producer.py",
    "client.start": "tests/integration/client/test_consumer.py",
    "client.transaction": "tests/integration/client/test_exactly_once.py",
    "config.checks": "tests/unit/config/test_refusals.py",
    "config.effective": "tests/unit/cli/test_config.py",
    "config.gateway": "tests/unit/config/test_overlay.py",
    "config.reader": "tests/unit/config/test_loading.py",
    "config.rules": "tests/unit/config/test_refusals.py",
    "config.names": "tests/integration/cli/test_topics.py",
    "control.describe": "tests/unit/control/test_views.py",
    "control.look": "tests/unit/cli/test_status.py",
    "control.overview": "tests/unit/control/test_status.py",
    "control.sight": "tests/unit/control/test_alarms.py",
    "docgen.alarms": "tests/unit/docgen/test_reference.py",
    "workers.crew": "tests/integration/workers/test_worker.py",
    "workers.gauge": "tests/integration/workers/test_worker.py",
    "workers.run": "tests/integration/workers/test_worker.py",
    "workers.worker": "tests/integration/workers/test_worker.py",
    "cli.worker": "tests/integration/workers/test_worker.py",
    "docgen.client": "tests/unit/docgen/test_reference.py",
    "cli.kafka_options": "tests/integration/cli/test_topics.py",
    "kafka.acls": "tests/integration/cli/test_acls.py",
    "kafka.configs": "tests/integration/cli/test_configs.py",
    "kafka.records": "tests/integration/cli/test_records.py",
    "kafka.scram": "tests/integration/stack/test_secure_kafka.py",
    "kafka.raw": "tests/integration/cli/test_quotas.py",
    "kafka.topic_details": "tests/integration/cli/test_topics.py",
    "kafka.writer": "tests/integration/publisher/test_writing.py",
    "kafka.trouble": "tests/integration/cli/test_topics.py",
    "control.paces": "tests/unit/control/test_subscriptions.py",
    "gateway.health": "tests/integration/gateway/test_process.py",
    "gateway.rest_proxy.consuming": "tests/integration/gateway/rest_proxy/test_v2.py",
    "gateway.rest_proxy.instances": "tests/integration/gateway/rest_proxy/test_bad_input.py",
    "gateway.rest_proxy.messages": "tests/integration/gateway/rest_proxy/test_bad_input.py",
    "gateway.rest_proxy.metadata": "tests/integration/gateway/rest_proxy/test_node.py",
    "gateway.rest_proxy.producing": "tests/integration/gateway/rest_proxy/test_v2.py",
    "gateway.rest_proxy.records": "tests/integration/gateway/rest_proxy/test_v3.py",
    "gateway.rest_proxy.schemas": "tests/integration/gateway/rest_proxy/test_v2.py",
    "gateway.refuse": "tests/integration/gateway/rest_proxy/test_bad_input.py",
    "gateway.replies": "tests/integration/gateway/registry/test_registry.py",
    "gateway.registry.ids": "tests/integration/gateway/registry/test_registry.py",
    "gateway.registry.modes": "tests/integration/gateway/registry/test_registry.py",
    "gateway.registry.requests": "tests/integration/gateway/registry/test_registry.py",
    "gateway.registry.routes": "tests/integration/gateway/registry/test_registry.py",
    "gateway.topic_stream.follow": "tests/integration/gateway/topic_stream/test_stream.py",
    "gateway.topic_stream.routes": "tests/integration/gateway/topic_stream/test_stream.py",
    "httpd.response_headers": "tests/unit/control/test_replies.py",
    "publisher.codec.commands": "tests/unit/publisher/websocket/test_session.py",
    "publisher.access.door": "tests/integration/publisher/test_permission.py",
    "httpd.handler": "tests/integration/httpd/test_listener.py",
    "publisher.websocket.accepting": "tests/integration/publisher/test_connections.py",
    "publisher.websocket.connection": "tests/integration/publisher/test_limits.py",
    "publisher.websocket.visitor": "tests/integration/publisher/test_permission.py",
    "publisher.hub.followers": "tests/unit/publisher/hub/test_hub.py",
    "publisher.http.access": "tests/integration/publisher/test_permission.py",
    "publisher.hub.paced": "tests/unit/publisher/hub/test_keeping.py",
    "publisher.http.http": "tests/integration/publisher/test_sse.py",
    "publisher.hub.reading": "tests/unit/publisher/hub/test_hub.py",
    "publisher.websocket.websocket": "tests/integration/publisher/test_websocket.py",
    "publisher.http.sse": "tests/integration/publisher/test_sse.py",
    "publisher.websocket.subscriber": "tests/integration/publisher/test_websocket.py",
    "reducers.ahead": "tests/integration/reducers/test_avro.py",
    "reducers.deadletters": "tests/integration/reducers/test_dead_letters.py",
    "reducers.driver": "tests/integration/reducers/test_drivers.py",
    "reducers.eventreader": "tests/integration/reducers/test_events.py",
    "reducers.group": "tests/unit/reducers/test_world.py",
    "reducers.job": "tests/integration/reducers/test_flow.py",
    "reducers.moves": "tests/unit/reducers/test_reducer.py",
    "reducers.names": "tests/integration/reducers/test_sql.py",
    "reducers.progress": "tests/integration/reducers/test_topics.py",
    "reducers.rekey": "tests/integration/reducers/test_flow.py",
    "socketio_gateway.messages": "tests/unit/socketio_gateway/test_upstream.py",
    "socketio_gateway.client": "tests/integration/socketio_gateway/test_loss.py",
    "socketio_gateway.server": "tests/integration/socketio_gateway/test_clients.py",
    "reducers.taskbeat": "tests/integration/reducers/test_worker.py",
    "store.follow": "tests/contract/test_store.py",
    "store.keys": "tests/contract/test_store.py",
    "store.reader": "tests/contract/test_store.py",
    "store.redis": "tests/contract/test_store.py",
    "store.sharded_reader": "tests/integration/store/test_shards.py",
    "store.sharded_writer": "tests/integration/store/test_shards.py",
    "store.wire": "tests/contract/test_store.py",
    "store.writer": "tests/contract/test_store.py",
}
"""Modules that are tested through their neighbours, and where."""


def parts() -> set[str]:
    return {
        path.stem
        for path in SOURCE.iterdir()
        if (path.is_dir() and path.name != "__pycache__") or path.suffix == ".py"
    } - {"__init__"}


def modules() -> dict[str, Path]:
    """Every module by its dotted name within the package."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        words = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(word for word in words if word != "__init__")] = path
    return found


def imported(path: Path, *, inner: str = "distributary.") -> Iterator[str]:
    """Every module of ours that a file imports, anywhere in it, as a name within the package."""
    known = _known()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: imports are absolute"
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.startswith(inner) and name.removeprefix(inner) in known:
                yield name.removeprefix(inner)


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(modules())


def test_every_part_has_its_place() -> None:
    assert parts() == set(SEES), "a new part must be given its place in the flow, here and in ARCHITECTURE.md"


@pytest.mark.parametrize("part", sorted(SEES))
def test_a_part_sees_only_what_stands_before_it(part: str) -> None:
    files = [SOURCE / f"{part}.py"] if (SOURCE / f"{part}.py").exists() else (SOURCE / part).rglob("*.py")
    for path in files:
        for name in imported(path):
            other = name.split(".")[0]
            assert other == part or other in SEES[part], (
                f"{path.relative_to(ROOT)} imports {name}: {part} may see {', '.join(sorted(SEES[part]))}"
            )


def test_nothing_before_the_command_line_knows_it() -> None:
    for name, path in modules().items():
        if name.split(".")[0] not in ("cli", "docgen"):
            known = [other for other in imported(path) if other.split(".")[0] == "cli"]
            assert not known, f"{path.relative_to(ROOT)} imports {known}"


def test_the_model_does_no_io() -> None:
    io = {"os", "socket", "asyncio", "pathlib", "redis", "confluent_kafka", "aiohttp", "subprocess", "time"}
    for path in (SOURCE / "model").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        used = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        used |= {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
        assert not used & io, f"{path.relative_to(ROOT)} imports {used & io}"


@pytest.mark.parametrize("part", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_every_folder_has_tests(part: str) -> None:
    if part == "__pycache__":
        return
    folders = [TESTS / kind / part for kind in ("unit", "integration")]
    assert any(list(folder.rglob("test_*.py")) for folder in folders), f"no tests for {part}/"


def test_every_module_has_a_test() -> None:
    files = [path for path in TESTS.rglob("*.py") if "node_modules" not in path.parts]
    named = {name for path in files for name in imported(path)}
    lost = []
    for name, path in sorted(modules().items()):
        mirrored = Path(*name.split(".")[:-1]) / f"test_{path.stem}.py"
        if path.stem in ("__init__", "__main__") or not _logic(path) or name in named:
            continue
        if not any((TESTS / kind / mirrored).is_file() for kind in ("unit", "integration")):
            lost.append(name)
    strange = [name for name in lost if not (ROOT / THROUGH.get(name, "nowhere")).is_file()]
    assert not strange, f"no test of {', '.join(strange)}: write one, or say in THROUGH which one covers it"


def _logic(path: Path) -> bool:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(isinstance(node, kinds) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
