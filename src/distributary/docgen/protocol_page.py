"""The page of the client protocol: addresses, messages, and all codes as the code defines them."""

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
Protobuf, so that its unmodified SDKs are clients. It also streams over HTTP. All of these serve the same
snapshots and the same changes.

## Channels

| name | meaning |
|---|---|
| `odds` | the whole view |
| `odds?where=sport%20%3D%20'football'` | the rows that match a [filter](../how-to/filters.md) |
| `odds?keys=m1,m2` or `odds?key=m1&key=m2` | rows by key; each key percent-encoded |
| `odds?order=price%20desc&limit=10` | the [first rows](../how-to/first-rows-and-conflation.md) of one |
| `q:odds:2adfbea73d6193d1c5e0a7b94f28d163` | a query that the control API registered |

Each of them can select fields: `odds?where=…&fields=price,score.home`, `q:odds:2adf…d163?fields=price`.
Rows and changes then contain only these fields, and changes to others are not sent.

Literals are strings in quotes, numbers, `true`, `false` and `null`; a field that a row does not have equals
`null`. Numbers are compared by value (`1.5` matches `1.50`).

## Data

A snapshot is the reply's data (WebSocket) or is sent in pages (SSE, and two-step subscriptions):

```json
{{"op": "snapshot", "rows": [["m1", {{"id": "m1", "price": 1.55}}]], "stale": false, "tier": "snapshot"}}
```

`incomplete: true` means that Kafka no longer has records that the view's rule needs; `more: true` means that
another page follows. Changes have a position (`offset` in a publication, `id` in an event):

```json
{{"op": "add", "key": "m1", "time": 1767225600000, "row": {{"market_id": "m1", "price": 1.55}}}}
{{"op": "change", "key": "m1", "time": 1767225601000, "changed": {{"price": 1.6}}, "gone": ["note"]}}
{{"op": "remove", "key": "m1", "time": 1767225602000}}
```

An `add` for a row that the client has replaces the row; conflated subscriptions receive rows in this way.
With an order, `"at": 2` is the index of the row, counted from 0.

`time` is the record's timestamp in ms. After a resume, an `add` without a time may be for a row that the
client has (it is the current row), and a `remove` for one that it does not have. Notices have no position:
`{{"op": "stale", "since": 1767225600000}}` when the view's source has sent nothing for `stale_after`, and
`{{"op": "fresh"}}` when it sends records again. A position is `epoch:seq`; `seq`
counts the changes of the whole view, so the numbers of one channel have gaps. Numbers in rows have exactly
the digits that the producer wrote.

## WebSocket

| format | selected by | frames |
|---|---|---|
| JSON | the subprotocol `centrifuge-json`, or nothing | text; one message a line |
| Protobuf | the subprotocol `centrifuge-protobuf`, or `?format=protobuf` | binary; each after its length |

In Protobuf, a field `data` contains the same JSON, as bytes. A ping is an empty message, and so is the pong.

Commands: `connect` (first), `subscribe`, `unsubscribe`, `history`, `publish`, `rpc`, `refresh`, `sub_refresh`
and the pong. Other commands of the protocol (`ping`, `presence`, `presence_stats`) are refused with
code 108, and `send` is ignored. One frame can have several commands, also after `connect`: they wait for its
reply.

A command that sets one of these fields is refused with code 108, too:

| command | field | not available |
|---|---|---|
{unserved}

- If [authorization](../how-to/authorization.md) is on, `connect` has a `token`, or `data` with an `api_key`;
  or the handshake has the header `Authorization` or `X-API-Key`. The reply has `expires` and `ttl` (seconds
  until the token expires). Error 109 requests a new token.
- `refresh` sends a new token of the same user. Subscriptions whose row filter changes end with 2502
  (subscribe again for a snapshot), those of a view that the token does not allow with 2001.
- A `subscribe` with a `token` gets what both that token and the connection allow, until the token expires;
  `sub_refresh` sends a new one. Without authorization, both commands succeed and change nothing.
- A `subscribe` with `recover`, `epoch` and `offset` gets `recovered: true` with exactly the missed changes
  and the data `{{"op": "resumed", "tier": "log"}}` (or `"replay"`,
  see [tiers](../explanation/positions.md#tiers)),
  or `recovered: false` with a snapshot; with `flag` 2 it gets error 112 instead of the latter.
- A `subscribe` whose `data` has `from`, a position (`"epoch:seq"`) or a time (ISO 8601 or ms), gets the same
  replies; `from` is ignored with `recover`.
- `history` reads a channel to which the client is subscribed: at most `limit` publications (0: only the
  position; below 0, or over 1,000: 1,000) after `since`, or from the oldest in the log. With `reverse`, it
  returns those before `since`, or from the latest, in reverse order. Error 112 when some after `since` are no
  longer in the log.
- `publish` to `feed:NAME` writes a record to a feed that [allows it](../how-to/publish-from-clients.md); the
  reply is sent when Kafka has acknowledged it.
- `rpc` has the methods {methods}, whose data is `{{"view": NAME}}`.

A `subscribe` whose `data` is `{{"subscription": ID}}` follows a subscription of the control API. The reply's
data is `{{"op": "waiting"}}` until the subscription begins; then the publisher sends the snapshot's pages,
`{{"op": "ready", "position": "epoch:seq", "tier": "snapshot"}}`, and changes. The `data` can also have
`conflate`, `max_rate`, `max_bytes` and `slow`: see
[conflation](../how-to/first-rows-and-conflation.md#conflation).

### Limits

| what | limit | when it is exceeded |
|---|---|---|
| time until `connect` | `publisher.auth_timeout` | closed with 3502 |
| a command before `connect`, an invalid command | | closed with 3501 |
| a message | `publisher.max_frame` | closed with 1009 |
| a channel's name | {name:,} characters | error 107 |
| channels of a connection | `publisher.max_channels`, or the token's `channels` | error 106 |
| queries of one user in a process | the token's `queries` | error 106 |
| pending `publish`, `rpc` and refreshes | {pending} for each connection | error 111 |
| pending `history` | 1 for each connection | error 111 |
| commands a second | `publisher.max_command_rate` or its token's, plus 1 a channel | error 111, 3013 |
| the queue of a connection | `publisher.queue_bytes` | closed with 3008; conflated: the latest rows |
| snapshots and resumes over 64 KiB that are being sent | `publisher.state_bytes` in a process | error 111 |
| progress of a client that receives them | {progress:,} bytes in {stall:g} s, at least | closed with 3008 |
| `limit` of an order | `publisher.max_limit` | error 107 |
| rows of an ordered or conflated query | `publisher.max_materialized_rows` | error 106 |
| an unanswered ping | until the next, `publisher.ping_interval` later | closed with 3012 |

### Error codes

Errors in the reply to a command. Clients retry temporary errors automatically.

| code | message | temporary |
|---|---|---|
{refusals}
### Unsubscribe codes

The publisher ends one subscription. Clients resubscribe after codes from 2500 on.

| code | reason |
|---|---|
{unsubscribes}
### Close codes

The publisher closes the connection. Clients do not reconnect after codes from 3500 to 3999; after others they
reconnect and resume. In addition, 1009 closes a connection with a message larger than `publisher.max_frame`,
and 1002 one that uses WebSocket extensions which were not negotiated. permessage-deflate is negotiated if
`publisher.compression` is set and the client offers it; each message is compressed separately.

| code | reason |
|---|---|
{closes}
## Server-sent events

`GET /v1/views/VIEW/events` on the HTTP port. Only `ready` and `change` have an `id`, so a stream that breaks
within a snapshot starts again with a snapshot, and one that breaks later resumes. The parameters are in
[the API](rest.md#publisher). With `Accept: application/x-ndjson` the stream is lines of
`{{"event": …, "id": …, "data": …}}`, with `{{"event": "heartbeat"}}` when there is nothing else.

| event | data |
|---|---|
| `snapshot` | a page of rows |
| `ready` | `{{"op": "ready", "position": …, "recovered": …, "tier": …}}`: the rows are now complete |
| `change` | a change, as above; without an id within a group that ends with `ready` |
| `stale` | a notice: stale or fresh |
| `waiting` | the subscription has not begun |
| `end` | `{{"code": …, "reason": …}}`: the codes above; the stream ends, and a browser reconnects |
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
        progress=state_budget.STALL_BYTES,
        stall=state_budget.STALL_SECONDS,
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
