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
STAGES = ("setup", "httpd", "kafka", "client", "store", "permit", "reduce", "publish", "subscribe", "relay")
BESIDE = ("control", "gateway", "operate", "work", "demo", "cli", "docs")

SEES = {
    **{name: set(BASE) for name in BASE},
    **{stage: {*BASE, *STAGES[:at]} for at, stage in enumerate(STAGES)},
    "httpd": set(BASE),
    "control": {*BASE, *STAGES, "operate"},
    "gateway": {*BASE, *STAGES, "control"},
    "operate": {*BASE, *STAGES, "control"},
    "work": {*BASE, *STAGES, "operate"},
    "demo": {*BASE, *STAGES, "control", "operate"},
    "cli": {*BASE, *STAGES, "control", "gateway", "operate", "work", "demo"},
    "docs": {*BASE, *STAGES, "control", "gateway", "operate", "work", "demo", "cli"},
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
    "docs.alarms": "tests/unit/docs/test_reference.py",
    "work.crew": "tests/integration/work/test_worker.py",
    "work.gauge": "tests/integration/work/test_worker.py",
    "work.run": "tests/integration/work/test_worker.py",
    "work.worker": "tests/integration/work/test_worker.py",
    "cli.worker": "tests/integration/work/test_worker.py",
    "docs.client": "tests/unit/docs/test_reference.py",
    "cli.kafka_options": "tests/integration/cli/test_topics.py",
    "kafka.acls": "tests/integration/cli/test_acls.py",
    "kafka.configs": "tests/integration/cli/test_configs.py",
    "kafka.records": "tests/integration/cli/test_records.py",
    "kafka.scram": "tests/integration/operate/test_secure_kafka.py",
    "kafka.raw": "tests/integration/cli/test_quotas.py",
    "kafka.topic_details": "tests/integration/cli/test_topics.py",
    "kafka.writer": "tests/integration/publish/test_writing.py",
    "kafka.trouble": "tests/integration/cli/test_topics.py",
    "control.paces": "tests/unit/control/test_subscriptions.py",
    "gateway.health": "tests/integration/gateway/test_process.py",
    "gateway.proxy.consuming": "tests/integration/gateway/proxy/test_v2.py",
    "gateway.proxy.instances": "tests/integration/gateway/proxy/test_bad_input.py",
    "gateway.proxy.messages": "tests/integration/gateway/proxy/test_bad_input.py",
    "gateway.proxy.metadata": "tests/integration/gateway/proxy/test_node.py",
    "gateway.proxy.producing": "tests/integration/gateway/proxy/test_v2.py",
    "gateway.proxy.records": "tests/integration/gateway/proxy/test_v3.py",
    "gateway.proxy.schemas": "tests/integration/gateway/proxy/test_v2.py",
    "gateway.refuse": "tests/integration/gateway/proxy/test_bad_input.py",
    "gateway.replies": "tests/integration/gateway/schemas/test_registry.py",
    "gateway.schemas.ids": "tests/integration/gateway/schemas/test_registry.py",
    "gateway.schemas.modes": "tests/integration/gateway/schemas/test_registry.py",
    "gateway.schemas.requests": "tests/integration/gateway/schemas/test_registry.py",
    "gateway.schemas.routes": "tests/integration/gateway/schemas/test_registry.py",
    "gateway.stream.follow": "tests/integration/gateway/stream/test_stream.py",
    "gateway.stream.routes": "tests/integration/gateway/stream/test_stream.py",
    "httpd.response_headers": "tests/unit/control/test_replies.py",
    "publish.wire.commands": "tests/unit/publish/connection/test_session.py",
    "publish.access.door": "tests/integration/publish/test_permission.py",
    "httpd.handler": "tests/integration/httpd/test_listener.py",
    "publish.connection.accepting": "tests/integration/publish/test_connections.py",
    "publish.connection.connection": "tests/integration/publish/test_limits.py",
    "publish.connection.visitor": "tests/integration/publish/test_permission.py",
    "publish.hub.followers": "tests/unit/publish/hub/test_hub.py",
    "publish.stream.access": "tests/integration/publish/test_permission.py",
    "publish.hub.paced": "tests/unit/publish/hub/test_keeping.py",
    "publish.stream.http": "tests/integration/publish/test_sse.py",
    "publish.hub.reading": "tests/unit/publish/hub/test_hub.py",
    "publish.connection.websocket": "tests/integration/publish/test_websocket.py",
    "publish.stream.sse": "tests/integration/publish/test_sse.py",
    "publish.connection.subscriber": "tests/integration/publish/test_websocket.py",
    "reduce.ahead": "tests/integration/reduce/test_avro.py",
    "reduce.deadletters": "tests/integration/reduce/test_dead_letters.py",
    "reduce.driver": "tests/integration/reduce/test_drivers.py",
    "reduce.eventreader": "tests/integration/reduce/test_events.py",
    "reduce.group": "tests/unit/reduce/test_world.py",
    "reduce.job": "tests/integration/reduce/test_flow.py",
    "reduce.moves": "tests/unit/reduce/test_reducer.py",
    "reduce.names": "tests/integration/reduce/test_sql.py",
    "reduce.progress": "tests/integration/reduce/test_topics.py",
    "reduce.rekey": "tests/integration/reduce/test_flow.py",
    "relay.messages": "tests/unit/relay/test_upstream.py",
    "relay.client": "tests/integration/relay/test_loss.py",
    "relay.server": "tests/integration/relay/test_clients.py",
    "reduce.taskbeat": "tests/integration/reduce/test_worker.py",
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
        if name.split(".")[0] not in ("cli", "docs"):
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
