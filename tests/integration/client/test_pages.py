"""What the page on the clients shows is run, from its first block to its last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.integration.client.conftest import Configurations
from tests.support.doc_blocks import blocks
from tests.support.stack import RunningStack

from distributary.kafka.topics import delete_topic, ensure_topic

pytestmark = pytest.mark.slow

PAGE = "docs/how-to/client.md"
TOPICS = ("orders", "orders.large", "orders.priced", "orders.refused")


def test_page_runs(
    stack: RunningStack,
    configure: Configurations,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    admin = stack.admin()
    for name in TOPICS[:3]:
        ensure_topic(admin, name, 1)
    names: dict[str, Any] = {}
    printed = []
    try:
        for block in blocks(PAGE):
            if block.language == "python":
                exec(
                    compile(block.text.replace("localhost:9092", configure.servers), block.place, "exec"),
                    names,
                )
                printed.append(capsys.readouterr().out.splitlines())
    finally:
        for name in TOPICS:
            delete_topic(admin, name)
    produced, consumed, looped, seen, once, concurrent, checked = printed
    assert produced == ["orders 0 0"]
    assert consumed == ["7", "700"]
    assert looped[0].startswith("orders 0 0 b'customer-1'")
    assert looped[1].endswith("b'shop'")
    assert len(seen) == 2
    assert once == []
    assert concurrent == ["12"]
    assert checked[:2] == ["orders", "orders.large"]
    assert checked[2].startswith("orders.refused $.price: 'dear' is not of type 'number'")
