"""Every option of every way to rows, listed from the code, as a user with a filter of rows would try it.

As in ``test_every_path``: ann may read the columns ``c`` and ``n`` of ``odds`` where ``c = 'DE'``. Whatever
she adds to a request, no answer names the key or the value of another row, or a value of another column, and
the rows and changes that are hers come.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pytest
from tests.integration.auth.test_every_path import Stand, french, german, hers, row, standing
from tests.integration.publisher.test_publisher_authorization import token
from tests.support.fake_view import VIEW
from tests.support.serving_publisher import WAIT
from tests.support.wire_formats import CODECS

from distributary.control import rows_request, subscription_routes
from distributary.control.row_formats import ARROW, FORMATS
from distributary.model import channel_name
from distributary.publisher.codec.client_commands import History, Subscribe
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.subscribe_options import SubscribeData
from distributary.publisher.http import event_stream

Tried = list[tuple[str, Any]]
"""The options of one request, in order; one may come twice. A value that is a `Later` is found out first."""


class Later(str):
    """A value that only a running stand knows."""

    __slots__ = ()


POSITION, TIME, HIS, HERS, PAGE = map(Later, ("position", "time", "his", "hers", "page"))
UNREGISTERED = ("where", "n >= 0 and n < 1000000")
"""A new filter: the log has nothing about its rows yet."""

QUERIES: dict[str, list[Tried]] = {
    "where": [[("where", "n >= 0")], [("where", "c = 'FR' or n >= 0")]],
    "key": [[("key", "fr"), ("key", "de")]],
    "keys": [[("keys", "fr,de")]],
    "fields": [[("fields", "n")], [("fields", "c,n,s")]],
    "order": [[("order", "n desc"), ("limit", 5)], [("order", "c desc"), ("limit", 1)]],
    "limit": [[("order", "n desc"), ("limit", 1)]],
}
PACES: dict[str, list[Tried]] = {
    "conflate": [[("conflate", "50 ms")]],
    "max_rate": [[("max_rate", 50)]],
    "max_bytes": [[("max_bytes", 100_000)]],
    "slow": [[("slow", "conflate")], [("slow", "close")]],
}
STARTS: list[Tried] = [
    [("from", start), *more] for start in (POSITION, TIME) for more in ([], [UNREGISTERED])
]

OF_ROWS: dict[str, list[Tried]] = {
    **{name: tried for name, tried in QUERIES.items() if name != "order"},
    "limit": [[("limit", 1)]],
    "page": [[("limit", 1), ("page", PAGE)]],
}
OF_STREAM: dict[str, list[Tried]] = {
    **QUERIES,
    **PACES,
    "from": STARTS,
    "subscription": [[("subscription", HERS)], [("subscription", HIS)]],
    "last_event_id": [[("last_event_id", POSITION)], [("last_event_id", POSITION), UNREGISTERED]],
    "token": [[("token", german(lasts=7200))]],  # made as the tests are collected
}
OF_DATA: dict[str, list[Tried]] = {**PACES, "from": STARTS, "subscription": OF_STREAM["subscription"]}
OF_SUBSCRIPTION: dict[str, list[Tried]] = {
    **{name: tried for name, tried in QUERIES.items() if name != "key"},
    "keys": [[("keys", ["fr", "de"])]],
    "fields": [[("fields", ["n"])]],
    "view": [[("view", VIEW)]],
}
OF_SUBSCRIBE = ("channel", "token", "recover", "epoch", "offset", "flag", "data")
"""Fields of the command that are tried here, or in the tests of paths; the rest is refused as not served."""
REFUSED = (HIS, PAGE)
"""Values that must not be served at all."""


def names(struct: type[msgspec.Struct]) -> set[str]:
    return {one.encode_name for one in msgspec.structs.fields(struct)}


def test_every_option_is_tried() -> None:
    """Write the case of a new option here: how might it tell of rows that are not the user's?"""
    from distributary.publisher.codec.client_commands import UNSERVED

    assert set(OF_ROWS) == set(rows_request.PARAMETERS)
    assert set(OF_STREAM) == set(event_stream.PARAMETERS)
    assert set(QUERIES) == set(channel_name.OPTIONS)
    assert set(OF_DATA) == names(SubscribeData)
    assert set(OF_SUBSCRIPTION) == set(subscription_routes.FIELDS)
    assert set(OF_SUBSCRIBE) | set(UNSERVED["subscribe"]) == names(Subscribe)
    assert {"channel", "limit", "since", "reverse"} == names(History)


class Options:
    """A stand, and the values that it alone knows."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self._last = 0

    async def value(self, given: Any) -> Any:
        """Return a value; a position is from before the first row, as ann sees positions."""
        if not isinstance(given, Later):
            return given
        stand = self.stand
        if given == TIME:
            # From here on the store has a note of where the view stands, and something comes after it.
            stand.fake_view.writer.save_checkpoint(stand.fake_view.build, 0, 100)
            found = str(stand.fake_view.writer.now())
            stand.fake_view.put(("fr", row("FR", -1)), ("gb-secret", row("GB", 1)))
            return found
        if given == POSITION:
            url = f"{stand.bases['control']}/v1/views/{VIEW}"
            headers = {"Authorization": f"Bearer {german()}"}
            async with stand.http.get(url, headers=headers) as reply:
                epoch = reply.headers["Distributary-Position"].rpartition(":")[0]
            return f"{epoch}:0"
        if given == PAGE:
            page = await stand.json("control", f"GET /v1/views/{VIEW}?limit=1", shown=token("boss"))
            return page["next"]
        made = await stand.subscription(german() if given == HERS else french())
        await stand.ask(
            "control",
            f"POST /v1/subscriptions/{made['id']}/begin",
            shown=german() if given == HERS else french(),
        )
        return made["id"]

    async def values(self, tried: Tried) -> Tried:
        return [(name, await self.value(given)) for name, given in tried]

    def change(self) -> bytes:
        """Change rows, hers and others; give what the change of hers has in it."""
        self._last += 1
        self.stand.change(self._last)
        return b'"n":%d' % self._last

    async def rows(self, tried: Tried, format: str) -> None:
        path = "&".join(f"{name}={quote(str(value), safe=',')}" for name, value in await self.values(tried))
        status = 400 if refused(tried) else 200
        text = await self.stand.ask(
            "control", f"GET /v1/views/{VIEW}?{path}", status, headers={"Accept": format}
        )
        if format == ARROW and status == 200:
            text = json.dumps(pa.ipc.open_stream(io.BytesIO(text)).read_all().to_pylist()).encode()
        private(text, text.replace(b",", b'"').replace(b"\n", b'"'))
        assert status == 400 or b"de" in text or any(name == "fields" for name, _ in tried), text

    async def stream(self, tried: Tried, accept: str) -> None:
        url = f"{self.stand.bases['publisher']}/v1/views/{VIEW}/events"
        headers = {"Accept": accept, "Authorization": f"Bearer {german()}"}
        if any(name == "token" for name, _ in tried):
            del headers["Authorization"]
        params = [(name, str(value)) for name, value in await self.values(tried)]
        async with (
            asyncio.timeout(WAIT),
            self.stand.http.get(url, headers=headers, params=params) as reply,
        ):
            if refused(tried):
                private(await reply.read())
                assert reply.status == 404
                return
            assert reply.status == 200, await reply.read()
            read = b""
            while b"ready" not in read and b'"recovered"' not in read:
                read += await reply.content.readany()
            waited = self.change()
            while waited not in read:
                read += await reply.content.readany()
            private(read)

    async def channel(self, codec: Codec, tried: Tried, data: Tried) -> None:
        path = "&".join(f"{name}={quote(str(value), safe=',')}" for name, value in await self.values(tried))
        given = dict(await self.values(data))
        body = {"channel": f"{VIEW}?{path}" if path else VIEW, "data": given}
        if "subscription" in given:
            query = await self.stand.json(
                "control",
                f"GET /v1/subscriptions/{given['subscription']}",
                shown=french() if refused(data) else german(),
            )
            body["channel"] = query["channel"]
        self.stand.wire = codec
        async with self.stand.client() as ann:
            reply = await ann.ask(2, subscribe=body)
            private(json.dumps(reply))
            if refused(data):
                assert reply["error"]["code"] == 102
                return
            assert "subscribe" in reply, reply
            waited, seen = self.change(), b""
            while waited not in seen:
                seen = json.dumps(await ann.next(), separators=(",", ":")).encode()
                private(seen)
            several: list[dict[str, Any]] = [{}, {"reverse": True}, {"since": {"epoch": "", "offset": 0}}]
            for n, more in enumerate(several):
                private(
                    json.dumps(
                        await ann.ask(3 + n, history={"channel": body["channel"], "limit": -1, **more})
                    )
                )

    async def subscription(self, tried: Tried) -> None:
        body = {"view": VIEW, **dict(await self.values(tried))}
        made = await self.stand.json("control", "POST /v1/subscriptions", 201, body=body)
        private(json.dumps(made))
        await self.stand.ask("control", f"POST /v1/subscriptions/{made['id']}/begin")
        async with self.stand.client() as ann:
            asked = {"channel": made["channel"], "data": {"subscription": made["id"]}}
            reply = await ann.ask(2, subscribe=asked)
            assert "subscribe" in reply, reply
            private(json.dumps(reply))
            waited, seen = self.change(), b""
            while waited not in seen:
                seen = json.dumps(await ann.next(), separators=(",", ":")).encode()
                private(seen)


def private(*texts: bytes | str) -> None:
    """Check that nothing is sent about rows that are not ann's."""
    hers(*texts)
    for text in texts:
        said = text.decode(errors="replace") if isinstance(text, bytes) else text
        assert "gb-secret" not in said, said


def refused(tried: Tried) -> bool:
    return any(value in REFUSED for _, value in tried if isinstance(value, Later))


def each(table: dict[str, list[Tried]]) -> list[Any]:
    return [
        pytest.param(tried, id=f"{name}-{n}")
        for name, several in table.items()
        for n, tried in enumerate(several)
    ]


@pytest.fixture
async def options(tmp_path: Path) -> Any:
    async with standing(tmp_path) as stand:
        yield Options(stand)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("tried", each(OF_ROWS))
async def test_rest_never_returns_hidden_rows(options: Options, tried: Tried, format: str) -> None:
    await options.rows(tried, format)


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
@pytest.mark.parametrize("tried", each(OF_STREAM))
async def test_http_stream_never_sends_hidden_rows(options: Options, tried: Tried, accept: str) -> None:
    await options.stream(tried, accept)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.subprotocol)
@pytest.mark.parametrize("tried", each(QUERIES))
async def test_channel_never_sends_hidden_rows(options: Options, codec: Codec, tried: Tried) -> None:
    await options.channel(codec, tried, [])


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.subprotocol)
@pytest.mark.parametrize("tried", each(OF_DATA))
async def test_channel_with_data_never_sends_hidden_rows(
    options: Options, codec: Codec, tried: Tried
) -> None:
    data = [(name, value) for name, value in tried if (name, value) != UNREGISTERED]
    await options.channel(codec, [one for one in tried if one == UNREGISTERED], data)


@pytest.mark.parametrize("tried", each(OF_SUBSCRIPTION))
async def test_subscription_never_sends_hidden_rows(options: Options, tried: Tried) -> None:
    await options.subscription(tried)


async def test_start_with_conflation_never_sends_hidden_rows(options: Options) -> None:
    for start, pace in itertools.product(STARTS, PACES.values()):
        await options.stream([*start, *pace[0]], "text/event-stream")


HIDDEN: list[Tried] = [
    [("where", "s = 'hidden'")],
    [("where", "n >= 0 or s like 'h%'")],
    [("where", "s is null")],
    [("order", "s"), ("limit", 1)],
    [("order", "n, s desc"), ("limit", 1)],
]
"""Each would tell of a column that ann may not see."""


@pytest.mark.parametrize("tried", HIDDEN, ids=str)
async def test_query_by_a_hidden_column_is_refused(options: Options, tried: Tried) -> None:
    stand = options.stand
    path = "&".join(f"{name}={quote(str(value), safe=',')}" for name, value in tried)
    if "order" not in dict(tried):
        private(await stand.ask("control", f"GET /v1/views/{VIEW}?{path}", 403))
    private(await stand.ask("publisher", f"GET /v1/views/{VIEW}/events?{path}", 403))
    await stand.ask("control", "POST /v1/subscriptions", 403, body={"view": VIEW, **dict(tried)})
    # Somebody who may made it: its channel is of no use to ann.
    made = await stand.json(
        "control",
        "POST /v1/subscriptions",
        201,
        shown=token("boss", rows="c = 'DE'"),
        body={"view": VIEW, **dict(tried)},
    )
    for codec in CODECS:
        stand.wire = codec
        async with stand.client() as ann:
            reply = await ann.ask(2, subscribe={"channel": f"{VIEW}?{path}"})
            assert reply["error"]["code"] == 103
            reply = await ann.ask(3, subscribe={"channel": made["channel"]})
            assert reply["error"]["code"] == 102
