"""The fuzzer itself, its table of targets, and a short run of every target."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distributary.gateway.gateway_app import all_routes
from distributary.publisher.codec.client_commands import Command
from distributary.socketio_gateway import client_requests
from tests.fuzz import engine, http_targets, protocol_targets
from tests.fuzz.__main__ import main
from tests.fuzz.engine import Run, Target, fuzz, without_resources
from tests.fuzz.mutations import maker
from tests.fuzz.targets import BY_NAME, TARGETS

SOURCE = Path(__file__).parents[2] / "src" / "distributary"
UNTRUSTED = ("publisher", "control", "gateway", "auth", "socketio_gateway", "model", "kafka", "config")
"""The folders whose modules may parse untrusted input."""
PARSING_CALLS = {
    "loads",
    "Decoder",
    "urlsplit",
    "parse_qs",
    "fromisoformat",
    "b64decode",
    "urlsafe_b64decode",
    "fromhex",
}
TRUSTED = {
    "control.api_client": "reads responses of our own control API",
    "control.app_context": "reads a setting",
    "control.row_formats": "reads rows of the store",
    "control.arrow": "reads rows of the store",
    "control.observation": "reads heartbeats of our own components",
    "control.view_description": "reads rows of the store",
    "config.validators": "each check is called by config.convert",
    "kafka.embedded_broker": "reads files of the embedded broker",
    "kafka.record_text": "reads lines of the user at the terminal",
    "kafka.record_lookup": "reads records for the user at the terminal",
    "kafka.capacity": "reads options of the user at the terminal",
    "kafka.reassignment": "reads a file of the user at the terminal",
    "kafka.topic_offsets": "reads options of the user at the terminal",
    "kafka.record_router": "reads settings",
    "kafka.broker_request": "reads responses of the Kafka brokers that we connect to",
    "model.change": "reads changes that reducers wrote",
    "model.command": "reads commands that the control API wrote",
    "model.build": "reads definitions of the store",
    "model.sharding": "reads a setting",
    "auth.client_security": "reads the state of our own stack, and addresses of the user's configuration",
    "auth.grant_set": "reads ids that we made; its own tests try others",
    "auth.token_issuer": "reads tokens that we made",
    "publisher.publisher_server": "reads a setting",
    "publisher.metrics": "reads heartbeats of our own components",
    "socketio_gateway.publisher_messages": "reads what our own publishers send",
    "publisher.hub.top_n": "reads changes of the store",
    "publisher.codec.publication": "reads changes of the store",
    "publisher.hub.materialized_query": "reads changes of the store",
    "socketio_gateway.__main__": "reads settings",
    "model.filter.batch_filter": "reads rows of the store",
}
"""Modules that parse only trusted input, with its source."""


def parsing_modules() -> Iterator[str]:
    """Iterate over the modules that parse something."""
    for part in UNTRUSTED:
        for path in (SOURCE / part).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            called = {
                getattr(node.func, "attr", getattr(node.func, "id", ""))
                for node in nodes
                if isinstance(node, ast.Call)
            }
            if called & PARSING_CALLS:
                yield ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def test_module_that_parses_untrusted_input_has_a_target() -> None:
    covered = {name for target in TARGETS for name in target.reads}
    lost = sorted(set(parsing_modules()) - covered - set(TRUSTED))
    assert not lost, (
        f"give {', '.join(lost)} a target in tests/fuzz, or name the source of their input in TRUSTED"
    )


def test_target_names_existing_modules() -> None:
    for target in TARGETS:
        for name in target.reads:
            assert (SOURCE / f"{name.replace('.', '/')}.py").is_file(), f"{target.name}: {name}"
    assert len(BY_NAME) == len(TARGETS)


def test_examples_include_every_command_of_the_protocol() -> None:
    commands = {field.name for field in msgspec.structs.fields(Command)} - {"id"}
    assert commands <= {name for command in protocol_targets.COMMANDS for name in command}


def test_examples_include_every_event_of_the_socketio_gateway() -> None:
    assert set(client_requests.FIELDS) <= {event for event, _ in protocol_targets.EVENTS}


@pytest.mark.parametrize("name", ["http-control", "http-gateway", "http-publisher"])
def test_examples_include_every_route(name: str) -> None:
    table = {
        "http-control": http_targets._control,
        "http-gateway": http_targets._gateway,
        "http-publisher": http_targets._publisher,
    }
    firsts = {example.split(b"\n")[0].decode() for example in BY_NAME[name].corpus}
    for method, path in http_targets._table(table[name]):
        assert method == "*" or f"{method} {re.sub('{[^}]*}', 'odds', path)}" in firsts
    assert all_routes()


QUICK = [target for target in TARGETS if not target.name.startswith("http-")]


@pytest.mark.parametrize("target", QUICK, ids=lambda target: target.name)
def test_any_input_is_accepted_or_rejected(target: Target) -> None:
    make = maker(target.corpus, target.make)
    with target.open() as run:

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.binary(max_size=100) | st.integers(0, 1 << 32).map(lambda seed: make(Random(seed))))
        def check(data: bytes) -> None:
            run(data)

        check()
        assert all(isinstance(run(example), bool) for example in target.corpus)


@pytest.mark.parametrize(
    "target", [one for one in TARGETS if one not in QUICK], ids=lambda target: target.name
)
def test_any_request_gets_a_response(target: Target) -> None:
    result = fuzz(target, len(target.corpus) + 150, seed=7)
    assert not result.failure, (result.failure, result.crash)
    assert result.accepted


def test_example_is_accepted() -> None:
    for target in QUICK:
        with target.open() as run:
            assert any(run(example) for example in target.corpus), target.name


def planted(data: bytes) -> bool:
    if b"\x07" in data and b"{" in data:
        raise KeyError("planted")
    return b"{" in data


def test_crash_is_found_shrunk_saved_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = Target("planted", without_resources(planted), [b'{"some": "example of a body"}'], ())
    arguments = ["--inputs", "20000", "--seed", "1", "--crashes", str(tmp_path)]
    assert main(arguments, [target]) == 1
    printed = capsys.readouterr()
    assert "planted: KeyError" in printed.err
    assert "TARGET" in printed.out
    (file,) = tmp_path.iterdir()
    name, _, crash = file.read_bytes().partition(b"\n")
    assert (name, sorted(crash)) == (b"planted", sorted(b"\x07{")), "it was not shrunk"
    with pytest.raises(KeyError, match="planted"):
        main(["--replay", str(file)], [target])
    assert main(["--inputs", "50", "--seed", "1", "--crashes", str(tmp_path)], [target]) in (0, 1)


def test_slow_input_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SLOW", 0.05)

    def slow(data: bytes) -> bool:
        return sum(range(10_000_000 if b"!" in data else 1)) >= 0

    result = fuzz(Target("slow", without_resources(slow), [b"an example"], ()), 20_000, seed=1)
    assert result.failure.startswith("took")
    assert result.crash is not None
    assert b"!" in result.crash
    assert len(result.crash) < 10


def test_input_that_never_ends_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HUNG", 0.2)

    def endless(data: bytes) -> bool:
        while b"!" in data:
            with contextlib.suppress(Exception):
                pass
        return True

    result = fuzz(Target("endless", without_resources(endless), [b"!"], ()), 10, seed=1)
    assert "did not end" in result.failure


def test_growing_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "GROWTH", 16 << 20)
    leaked: list[bytes] = []

    @contextlib.contextmanager
    def leaking() -> Iterator[Run]:
        def leak(data: bytes) -> bool:
            leaked.append(b"x" * 100_000)
            return True

        yield leak

    result = fuzz(Target("leaking", leaking, [b"an example"], ()), 1_000, seed=1)
    assert "memory grew" in result.failure


def test_equal_seeds_give_equal_inputs() -> None:
    make = maker([b'{"a": 1}'], None)
    one, two = ([make(random) for _ in range(200)] for random in (Random(5), Random(5)))
    assert one == two
