"""Fixtures of all tests: one real stack for the whole run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.stack import AttachedStack, Feeding, RunningStack

# The first draw in a fresh clone builds tables for a second or two, and busy machines are slow.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stacks", choices=("shared", "own"), help="run the tests that use the shared stack, or the others"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select by ``--stacks``, and run tests that measure delays last."""
    if chosen := config.getoption("--stacks"):
        wanted = chosen == "shared"
        config.hook.pytest_deselected(items=[item for item in items if _shares(item) != wanted])
        items[:] = [item for item in items if _shares(item) == wanted]
    items.sort(key=lambda item: item.get_closest_marker("latency") is not None)


def _shares(item: pytest.Item) -> bool:
    return "stack" in getattr(item, "fixturenames", ())


SETTINGS = """
[spark]
batch_duration = "15 s"
memory = "1g"

[publisher]
processes = 2

[store]
subscription_ttl = "3 s"

[socketio]
port = 8003

[auth]
functions = ["tests.support.fold_functions:*", "examples.arena.rules:*"]
"""

PLANTED = {
    "PLANTED_PASSWORD": "planted",
    "DISTRIBUTARY_TOKEN": "planted",
    "DISTRIBUTARY_AUTH_AUDIENCE": "planted",
    "SPARK_PLANTED": "planted",
}
"""Variables of the environment in which the stack is started; integration/stack checks who gets them."""


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """Kafka, store, Spark, control API and two publishers, started once."""
    if "DISTRIBUTARY_TEST_STACK" in os.environ:
        yield AttachedStack(Path(os.environ["DISTRIBUTARY_TEST_STACK"]))
        return
    os.environ.update(PLANTED)
    try:
        running = RunningStack(tmp_path_factory.mktemp("stack"), SETTINGS).start()
    finally:
        for name in PLANTED:
            del os.environ[name]
    yield running
    running.stop()
    running.close()


@pytest.fixture
async def feeding(stack: RunningStack) -> AsyncIterator[Feeding]:
    """A topic and views of one test, deleted afterwards."""
    one = Feeding(stack)
    yield one
    await one.drop()
