"""What the clients that people use may ask for and a publisher does not serve is refused, not ignored."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from centrifuge import Client
from centrifuge.filter import Filter
from tests.integration.publisher.test_clients import NODE, Notes, protobuf
from tests.support.centrifuge_protocol import PROTOCOL
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.serving_publisher import WAIT, serving

from distributary.publisher.codec.client_commands import UNSERVED
from distributary.publisher.metrics import describe

SDK = NODE / "node_modules" / "centrifuge" / "build" / "protobuf" / "index.js"
npm = pytest.mark.skipif(
    shutil.which("node") is None or not SDK.is_file(),
    reason="needs node and tests/node/node_modules (make test installs them)",
)


@protobuf
@pytest.mark.parametrize(
    ("field", "options"),
    [("tf", {"tags_filter": Filter.eq("sport", "football")}), ("join_leave", {"join_leave": True})],
)
async def test_python_sdk_gets_an_error_for_unsupported_fields(
    protobuf: bool, field: str, options: dict[str, Any]
) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 0}))
    async with serving(fake_view) as publisher:
        client = Client(publisher.addresses["websocket"], use_protobuf=protobuf)
        notes = Notes()
        await client.connect()
        await client.new_subscription(VIEW, notes, **options).subscribe()
        await until(lambda: notes.unsubscribed)
        assert (notes.unsubscribed, notes.subscribed) == ([108], [])
        assert describe(publisher.hub, publisher.stats, "")["subscribers"] == 0
        await client.disconnect()


@npm
@protobuf
async def test_javascript_sdk_gets_an_error_for_unsupported_fields(protobuf: bool) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 0}))
    async with serving(fake_view) as publisher:
        address = publisher.addresses["websocket"]
        process = await asyncio.create_subprocess_exec(
            "node",
            str(NODE / "unserved.mjs"),
            address,
            VIEW,
            *(["--protobuf"] if protobuf else []),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(3 * WAIT):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    refused = UNSERVED["subscribe"]
    fields = {"map": "type", "shared poll": "type", "tags filter": "tf", "join and leave": "join_leave"}
    assert [json.loads(line) for line in output.splitlines()] == [
        {
            "what": what,
            "event": "unsubscribed",
            "code": 108,
            "reason": f"not available: {refused[field]}",
        }
        for what, field in fields.items()
    ]


def messages(source: Path) -> dict[str, dict[str, int]]:
    """The fields of every message, from the code that Protobuf's compiler made of the definition."""
    found: dict[str, dict[str, int]] = {}
    text = source.read_text(encoding="utf-8")
    for made in re.finditer(r"(\w+)\.decode = function decode\(.*?return message;", text, re.DOTALL):
        cases = re.findall(r"case (\d+): \{\s*(.*?)\s*break;", made.group(0), re.DOTALL)
        names = {number: re.search(r"message\.(\w+)", code) for number, code in cases}
        found[made.group(1)] = {name.group(1): int(number) for number, name in names.items() if name}
    return found


@npm
def test_newest_sdk_has_the_fields_of_the_publisher() -> None:
    """A newer SDK with other fields fails here: decide about each in test_client_commands.py."""
    known = messages(SDK)
    assert known["Command"].keys() == {"id", *PROTOCOL}
    for command, fields in PROTOCOL.items():
        name = {"rpc": "RPC"}.get(command) or "".join(word.title() for word in command.split("_"))
        assert known[f"{name}Request"] == fields, command
