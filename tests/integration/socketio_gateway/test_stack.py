"""The gateway as a part of a stack: from a record to a socket.io client."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from tests.integration.socketio_gateway.gateways import needs_node, node
from tests.support.stack import Feeding

pytestmark = needs_node


async def test_record_reaches_a_socketio_client(feeding: Feeding) -> None:
    address = feeding.stack.addresses.get("socketio")
    if address is None:
        pytest.skip("the stack that runs already has no gateway")
    view = await feeding.view()
    feeding.produce([("m1", {"sport": "tennis", "price": 1})])
    await feeding.rows_become(view, {"m1": {"sport": "tennis", "price": 1}})
    async with node(urlsplit(address).port or 0) as client:
        joined = await client.ask("subscribe", {"view": view, "keys": ["m1"]})
        assert joined["data"]["rows"] == [["m1", {"sport": "tennis", "price": 1}]]
        feeding.produce([("m2", {"price": 7}), ("m1", {"price": 2})])
        assert (await client.next("publication"))["data"]["changed"] == {"price": 2}
