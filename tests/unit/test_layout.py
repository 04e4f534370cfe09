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
    "config.listening": "tests/unit/config/test_overrides.py",
    "cli.output": "tests/unit/cli/test_config.py",
    "cli.parsers": "tests/unit/cli/test_main.py",
    "cli.settings_help": "tests/unit/cli/test_help.py",
    "cli.up": "tests/e2e/test_up.py",
    "client.connect": "tests/integration/client/test_producer.py",
    "client.delivery": "tests/integration/client/test_producer.py",
    "client.initial_offsets": "tests/integration/client/test_consumer.py",
    "client.transaction": "tests/integration/client/test_exactly_once.py",
    "config.validators": "tests/unit/config/test_refusals.py",
    "config.effective": "tests/unit/cli/test_config.py",
    "config.gateway_section": "tests/unit/config/test_overrides.py",
    "config.document_reader": "tests/unit/config/test_loader.py",
    "config.cross_checks": "tests/unit/config/test_refusals.py",
    "config.names": "tests/integration/cli/test_topics.py",
    "control.view_description": "tests/unit/control/test_view_routes.py",
    "control.offline_status": "tests/unit/cli/test_status.py",
    "control.stack_overview": "tests/unit/control/test_status_routes.py",
    "control.observation": "tests/unit/control/test_alarms.py",
    "docgen.alarms_page": "tests/unit/docgen/test_reference.py",
    "workers.worker_pool": "tests/integration/workers/test_worker_process.py",
    "workers.lag_monitor": "tests/integration/workers/test_worker_process.py",
    "workers.run_workers": "tests/integration/workers/test_worker_process.py",
    "workers.worker_process": "tests/integration/workers/test_worker_process.py",
    "cli.worker": "tests/integration/workers/test_worker_process.py",
    "docgen.client_page": "tests/unit/docgen/test_reference.py",
    "cli.kafka_options": "tests/integration/cli/test_topics.py",
    "kafka.acl_admin": "tests/integration/cli/test_acls.py",
    "kafka.config_admin": "tests/integration/cli/test_configs.py",
    "kafka.delete_records": "tests/integration/cli/test_records.py",
    "kafka.user_admin": "tests/integration/stack/test_secure_kafka.py",
    "kafka.broker_request": "tests/integration/cli/test_quotas.py",
    "kafka.topic_admin": "tests/integration/cli/test_topics.py",
    "kafka.topic_writer": "tests/integration/publisher/test_writing.py",
    "kafka.errors": "tests/integration/cli/test_topics.py",
    "control.paces": "tests/unit/control/test_subscription_routes.py",
    "gateway.gateway_health": "tests/integration/gateway/test_process.py",
    "gateway.rest_proxy.consumer_routes": "tests/integration/gateway/rest_proxy/test_v2.py",
    "gateway.rest_proxy.consumer_pool": "tests/integration/gateway/rest_proxy/test_bad_input.py",
    "gateway.rest_proxy.simple_consumer_v1": "tests/integration/gateway/rest_proxy/test_bad_input.py",
    "gateway.rest_proxy.metadata_routes": "tests/integration/gateway/rest_proxy/test_node.py",
    "gateway.rest_proxy.produce_v2": "tests/integration/gateway/rest_proxy/test_v2.py",
    "gateway.rest_proxy.produce_v3": "tests/integration/gateway/rest_proxy/test_v3.py",
    "gateway.rest_proxy.schema_lookup": "tests/integration/gateway/rest_proxy/test_v2.py",
    "gateway.errors": "tests/integration/gateway/rest_proxy/test_bad_input.py",
    "gateway.response_bodies": "tests/integration/gateway/registry/test_registry.py",
    "gateway.registry.schema_routes": "tests/integration/gateway/registry/test_registry.py",
    "gateway.registry.mode_routes": "tests/integration/gateway/registry/test_registry.py",
    "gateway.registry.registry_requests": "tests/integration/gateway/registry/test_registry.py",
    "gateway.registry.subject_routes": "tests/integration/gateway/registry/test_registry.py",
    "gateway.topic_stream.topic_reader": "tests/integration/gateway/topic_stream/test_stream.py",
    "gateway.topic_stream.topic_stream_routes": "tests/integration/gateway/topic_stream/test_stream.py",
    "httpd.response_headers": "tests/unit/control/test_responses.py",
    "publisher.codec.client_commands": "tests/unit/publisher/websocket/test_session.py",
    "publisher.access.door": "tests/integration/publisher/test_permission.py",
    "httpd.connection_handler": "tests/integration/httpd/test_listener.py",
    "publisher.websocket.accepting": "tests/integration/publisher/test_connections.py",
    "publisher.websocket.websocket_connection": "tests/integration/publisher/test_limits.py",
    "publisher.websocket.connection_auth": "tests/integration/publisher/test_permission.py",
    "publisher.hub.follower_pool": "tests/unit/publisher/hub/test_hub.py",
    "publisher.http.stream_access": "tests/integration/publisher/test_permission.py",
    "publisher.hub.conflated_member": "tests/unit/publisher/hub/test_materialized_query.py",
    "publisher.http.http_server": "tests/integration/publisher/test_sse.py",
    "publisher.hub.store_reads": "tests/unit/publisher/hub/test_hub.py",
    "publisher.websocket.websocket_server": "tests/integration/publisher/test_websocket.py",
    "publisher.http.event_stream": "tests/integration/publisher/test_sse.py",
    "publisher.websocket.channel_sink": "tests/integration/publisher/test_websocket.py",
    "reducers.ahead": "tests/integration/reducers/test_avro.py",
    "reducers.dead_letter_writer": "tests/integration/reducers/test_dead_letters.py",
    "reducers.driver": "tests/integration/reducers/test_drivers.py",
    "reducers.event_reader": "tests/integration/reducers/test_events.py",
    "reducers.write_batch": "tests/unit/reducers/test_event_fold.py",
    "reducers.job": "tests/integration/reducers/test_flow.py",
    "reducers.moves": "tests/unit/reducers/test_reducer.py",
    "reducers.column_types": "tests/integration/reducers/test_view_compiler.py",
    "reducers.build_progress": "tests/integration/reducers/test_topics.py",
    "reducers.rekey": "tests/integration/reducers/test_flow.py",
    "socketio_gateway.messages": "tests/unit/socketio_gateway/test_publisher_session.py",
    "socketio_gateway.client_session": "tests/integration/socketio_gateway/test_loss.py",
    "socketio_gateway.socketio_server": "tests/integration/socketio_gateway/test_clients.py",
    "reducers.task_heartbeat": "tests/integration/reducers/test_spark_task.py",
    "store.follow": "tests/contract/test_store.py",
    "store.redis_keys": "tests/contract/test_store.py",
    "store.redis_reader": "tests/contract/test_store.py",
    "store.redis": "tests/contract/test_store.py",
    "store.sharded_reader": "tests/integration/store/test_store_factory.py",
    "store.sharded_writer": "tests/integration/store/test_store_factory.py",
    "store.redis_codec": "tests/contract/test_store.py",
    "store.redis_writer": "tests/contract/test_store.py",
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
