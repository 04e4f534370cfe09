"""The environment of the real processes of a stack: components, Spark's JVM and its Python workers."""

from __future__ import annotations

import contextlib

import psutil
from tests.conftest import PLANTED
from tests.support.stack import Feeding

from distributary.stack import processes


async def test_every_process_has_only_the_environment_it_needs(feeding: Feeding) -> None:
    view = await feeding.view(key="id")
    feeding.produce([("a", {"id": "a"})])
    await feeding.rows_become(view, {"a": {"id": "a"}})  # now Spark's Python runs, too
    found: dict[str, list[set[str]]] = {}
    for process in processes.marked(feeding.stack.stack.state.stack):
        with contextlib.suppress(psutil.Error):
            env = process.environ()
            found.setdefault(env["DISTRIBUTARY_COMPONENT"], []).append(PLANTED.keys() & env.keys())
    assert len(found["reducers"]) >= 3, "the driver, its JVM and Spark's Python"
    assert {part: {tuple(sorted(names)) for names in sets} for part, sets in found.items()} == {
        "kafka": {()},
        "store": {()},
        "reducers": {("SPARK_PLANTED",)},
        **{
            part: {("DISTRIBUTARY_AUTH_AUDIENCE",)}
            for part in ("control", "gateway", "publisher-1", "publisher-2", "socketio")
        },
    }
