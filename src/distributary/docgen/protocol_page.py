"""The page of what goes over the wire: addresses, messages and every code, the codes from the code."""

from __future__ import annotations

from typing import TypeVar

from distributary.publisher.codec import codes
from distributary.publisher.codec.client_commands import UNSERVED
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.publisher.hub import state_budget
from distributary.publisher.websocket.rpc import METHODS
from distributary.publisher.websocket.session import MAX_NAME, MAX_PENDING
from distributary.publisher.websocket.websocket_server import PATH

Code = TypeVar("Code", Refusal, Ending)

_INTRO = """\
# Protocol

<!-- Made by `python -m distributary.docgen` from src/distributary/publisher/. Do not edit. -->

A publisher speaks the Centrifuge client protocol over WebSocket, at `{path}`, in JSON and in
Protobuf, so the unmodified SDKs of that family are clients; and streams over HTTP. All serve the same joins
and the same changes.

## Channels

| name | what it is |
|---|---|
| `odds` | the whole view |
| `odds?where=sport%20%3D%20'football'` | the rows that match a [filter](../how-to/filters.md) |
| `odds?keys=m1,m2` or `odds?key=m1&key=m2` | rows by key; each key percent-encoded |
| `odds?order=price%20desc&limit=10` | the [first rows](../how-to/first-rows-and-pace.md) of any of these |
| `q:odds:2adfbea73d6193d1c5e0a7b94f28d163` | a query that the control API registered |

Any of them may choose fields: `odds?where=…&fields=price,score.home`, `q:odds:2adf…d163?fields=price`.
Then rows and changes have these alone, and a change of others is not sent.

Literals are texts in quotes, numbers, `true`, `false` and `null`; a field that a row does not have equals
`null`. Numbers are compared by value (`1.5` matches `1.50`).

## Data

A snapshot is the reply's data (WebSocket) or comes in pages (SSE, and a subscription that was begun):

```json
{{"op": "snapshot", "rows": [["m1", {{"id": "m1", "price": 1.55}}]], "stale": false, "tier": "snapshot"}}
```

`incomplete: true` says that Kafka no longer has records that the view's rule needs; `more: true` that another
page follows. Changes carry their position (`offset` in a publication, `id` in an event):

```json
{{"op": "add", "key": "m1", "time": 1767225600000, "row": {{"market_id": "m1", "price": 1.55}}}}
{{"op": "change", "key": "m1", "time": 1767225601000, "changed": {{"price": 1.6}}, "gone": ["note"]}}
{{"op": "remove", "key": "m1", "time": 1767225602000}}
```

An `add` for a row that one has replaces it: so come rows to who asked for a pace. With an order, `"at": 2`
says where the row stands now, counted from 0.

`time` is the record's timestamp in ms. Where one was away, an `add` may be of a row that one has, without a
time: it is the whole row as it is now; and a `remove` of one that one has not. Notices have no position:
`{{"op": "stale", "since": 1767225600000}}` when the view's source has been silent for `stale_after`, and
`{{"op": "fresh"}}` when it speaks again. A position is `epoch:seq`; `seq`
counts the changes of the whole view, so the numbers of one channel have gaps. Numbers in rows are the
producer's own digits.

## WebSocket

| format | chosen by | frames |
|---|---|---|
| JSON | the subprotocol `centrifuge-json`, or nothing | text; a message a line |
| Protobuf | the subprotocol `centrifuge-protobuf`, or `?format=protobuf` | binary; each after its length |

In Protobuf a field `data` holds the same JSON, as bytes. A ping is an empty message, and so is its answer.

Commands: `connect` (first), `subscribe`, `unsubscribe`, `history`, `publish`, `rpc`, `refresh`, `sub_refresh`
and the answer to a ping. The others of the protocol (`ping`, `presence`, `presence_stats`) are refused with
code 108, and `send` is ignored. Several may come in one frame, also with `connect`: they wait for its answer.

A command that sets one of these fields is refused with code 108, too, rather than answered without it:

| command | field | not available |
|---|---|---|
{unserved}

- Where [permission](../how-to/permission.md) is on, `connect` carries a `token`, or `data` with an `api_key`;
  or the handshake had the header `Authorization` or `X-API-Key`. The reply says `expires` and `ttl` (seconds)
  when the token ends. Error 109 asks for another token.
- `refresh` shows a new token of the same user. Subscriptions whose rows it does not allow as they are served
  end with 2502 (subscribe again: it will be a snapshot), those of a view that it does not allow with 2001.
- A `subscribe` with a `token` is served what both that and the connection allow, until that ends;
  `sub_refresh` shows another. Where permission is off both are answered, and change nothing.
- A `subscribe` with `recover`, `epoch` and `offset` gets `recovered: true` with exactly what it missed and
  the data `{{"op": "resumed", "tier": "log"}}` (or `"replay"`: [tiers](../explanation/positions.md#tiers)),
  or `recovered: false` with a snapshot; with `flag` 2 it gets error 112 instead of the latter.
- A `subscribe` whose `data` has `from`, a position (`"epoch:seq"`) or a time (ISO 8601 or ms), is answered
  the same way; it counts only without `recover`.
- `history` reads a channel that one is subscribed to: at most `limit` publications (0: none, only the
  position; below 0, or over 1,000: 1,000) after `since`, or from the oldest that the log has. With `reverse`
  they are those before `since`, or from the newest, and the newest comes first. Error 112 when some after
  `since` are gone.
- `publish` to `feed:NAME` writes a record to a feed that [allows it](../how-to/publish-from-clients.md), and
  is answered when Kafka has it.
- `rpc` has the methods {methods}, whose data is `{{"view": NAME}}`.

A `subscribe` whose `data` is `{{"subscription": ID}}` follows a subscription of the control API. Until that
is begun the reply's data is `{{"op": "waiting"}}`; then come the snapshot's pages,
`{{"op": "ready", "position": "epoch:seq", "tier": "snapshot"}}`, and changes. The same `data` may hold
`conflate`, `max_rate`, `max_bytes` and `slow`:
[a pace of one's own](../how-to/first-rows-and-pace.md#a-pace-of-your-own).

### Limits

| what | limit | beyond it |
|---|---|---|
| time until `connect` | `publisher.auth_timeout` | closed with 3502 |
| a command before `connect`, what is no command | | closed with 3501 |
| a message | `publisher.max_frame` | closed with 1009 |
| a channel's name | {name:,} characters | error 107 |
| channels of a connection | `publisher.max_channels`, or the token's `channels` | error 106 |
| queries of one user in a process | the token's `queries` | error 106 |
| `publish`, `rpc` and refreshes under way | {pending} for each connection | error 111 |
| `history` under way | 1 for each connection | error 111 |
| commands a second | `publisher.max_command_rate` or its token's, plus 1 a channel | error 111, 3013 |
| what waits for a reader | `publisher.queue_bytes` | closed with 3008; with a pace: the newest rows |
| first rows and resumes over 64 KiB that are being sent | `publisher.state_bytes` in a process | error 111 |
| a reader that has such rows to take | {progress:,} bytes in {stall:g} s, at least | closed with 3008 |
| `limit` of an order | `publisher.max_limit` | error 107 |
| rows of a query with an order or a pace | `publisher.max_materialized_rows` | error 106 |
| an unanswered ping | until the next, `publisher.ping_interval` later | closed with 3012 |

### Error codes

Answers to a command. A client tries again by itself where it is temporary.

| code | message | temporary |
|---|---|---|
{refusals}
### Unsubscribe codes

The publisher ends one subscription. From 2500 on the client subscribes again.

| code | reason |
|---|---|
{unsubscribes}
### Close codes

The publisher ends the connection. From 3500 to 3999 the client does not come back; otherwise it does, and
resumes. Beside these, 1009 closes a connection whose message is larger than `publisher.max_frame`, and 1002
one that uses WebSocket extensions which were not agreed on. permessage-deflate is, where
`publisher.compression` is set and the client offers it; messages are then compressed each by itself.

| code | reason |
|---|---|
{closes}
## Server-sent events

`GET /v1/views/VIEW/events` on the HTTP port. Only `ready` and `change` carry an `id`, so a stream that breaks
inside a snapshot begins again with a snapshot, and one that breaks later resumes. The parameters are in
[the API](rest.md#publisher). With
`Accept: application/x-ndjson` the same comes as lines, `{{"event": …, "id": …, "data": …}}`, and
`{{"event": "heartbeat"}}` where nothing else does.

| event | data |
|---|---|
| `snapshot` | a page of rows |
| `ready` | `{{"op": "ready", "position": …, "recovered": …, "tier": …}}`: the rows are whole from here on |
| `change` | a change, as above; without an id where all up to `ready` belong together |
| `stale` | a notice: stale or fresh |
| `waiting` | the subscription waits to be begun |
| `end` | `{{"code": …, "reason": …}}`: the codes above; the stream ends, and a browser comes back by itself |
"""


def page() -> str:
    """The whole page."""
    refusals = "".join(
        f"| {one.code} | {one.message} | {'yes' if one.temporary else 'no'} |\n" for one in all_of(Refusal)
    )
    endings = all_of(Ending)
    return _INTRO.format(
        path=PATH,
        methods=" and ".join(f"`{method}`" for method in METHODS),
        name=MAX_NAME,
        pending=MAX_PENDING,
        progress=state_budget.PROGRESS,
        stall=state_budget.STALL,
        unserved="".join(
            f"| `{command}` | `{field}` | {what} |\n"
            for command, fields in UNSERVED.items()
            for field, what in fields.items()
        ).rstrip("\n"),
        refusals=refusals,
        unsubscribes=_rows([one for one in endings if one.code < 3000]),
        closes=_rows([one for one in endings if one.code >= 3000]),
    )


def all_of(kind: type[Code]) -> list[Code]:
    """Every code of a kind that the publisher knows, by number."""
    return sorted(one for one in vars(codes).values() if isinstance(one, kind))


def _rows(endings: list[Ending]) -> str:
    return "".join(f"| {one.code} | {one.reason} |\n" for one in endings)
