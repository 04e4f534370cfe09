"""The page of what goes over the wire: addresses, messages and every code, the codes from the code."""

from __future__ import annotations

from typing import TypeVar

from distributary.publish import codes
from distributary.publish.codes import Ending, Refusal
from distributary.publish.websocket import PATH

Code = TypeVar("Code", Refusal, Ending)

_INTRO = """\
# Protocol

<!-- Made by `python -m distributary.docs` from src/distributary/publish/. Do not edit. -->

A publisher speaks the Centrifuge client protocol in JSON over WebSocket, at `{path}`, so the unmodified
SDKs of that family are clients; and server-sent events. Both serve the same joins and the same changes.

## Channels

| name | what it is |
|---|---|
| `odds` | the whole view |
| `odds?where=sport%20%3D%20'football'` | the rows that match: `field = literal`, joined by `and` |
| `odds?keys=m1,m2` or `odds?key=m1&key=m2` | rows by key; each key percent-encoded |
| `q:odds:2adfbea73d6193d1` | a query that the control API registered |

Literals are texts in quotes, numbers, `true`, `false` and `null`; a field that a row does not have equals
`null`. Numbers are compared by value (`1.5` matches `1.50`).

## Data

A snapshot is the reply's data (WebSocket) or comes in pages (SSE, and a subscription that was begun):

```json
{{"op": "snapshot", "rows": [["m1", {{"market_id": "m1", "price": 1.55}}]], "stale": false}}
```

`incomplete: true` says that Kafka no longer has records that the view's rule needs; `more: true` that another
page follows. Changes carry their position (`offset` in a publication, `id` in an event):

```json
{{"op": "add", "key": "m1", "time": 1767225600000, "row": {{"market_id": "m1", "price": 1.55}}}}
{{"op": "change", "key": "m1", "time": 1767225601000, "changed": {{"price": 1.6}}, "gone": ["note"]}}
{{"op": "remove", "key": "m1", "time": 1767225602000}}
```

`time` is the record's timestamp in ms. Notices have no position:
`{{"op": "stale", "since": 1767225600000}}` when the view's source has been silent for `stale_after`, and
`{{"op": "fresh"}}` when it speaks again. A position is `epoch:seq`; `seq`
counts the changes of the whole view, so the numbers of one channel have gaps. Numbers in rows are the
producer's own digits.

## WebSocket

Commands: `connect` (first), `subscribe`, `unsubscribe`, `history` (forwards; at most 1,000 publications) and
the answer to a ping. The others of the protocol (`publish`, `presence`, `presence_stats`, `rpc`, `send`,
`refresh`, `sub_refresh`) are refused with code 108. A `subscribe` with `recover`, `epoch` and `offset` gets
`recovered: true` with exactly what it missed, or `recovered: false` with a snapshot.

A `subscribe` whose `data` is `{{"subscription": ID}}` follows a subscription of the control API. Until that
is begun the reply's data is `{{"op": "waiting"}}`; then come the snapshot's pages,
`{{"op": "ready", "position": "epoch:seq"}}`, and changes.

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
one that uses WebSocket extensions.

| code | reason |
|---|---|
{closes}
## Server-sent events

`GET /v1/views/VIEW/events` on the HTTP port. Only `ready` and `change` carry an `id`, so a stream that breaks
inside a snapshot begins again with a snapshot, and one that breaks later resumes.

| event | data |
|---|---|
| `snapshot` | a page of rows |
| `ready` | `{{"op": "ready", "position": …, "recovered": …}}`: the rows are whole from here on |
| `change` | a change, as above |
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
        refusals=refusals,
        unsubscribes=_rows([one for one in endings if one.code < 3000]),
        closes=_rows([one for one in endings if one.code >= 3000]),
    )


def all_of(kind: type[Code]) -> list[Code]:
    """Every code of a kind that the publisher knows, by number."""
    return sorted(one for one in vars(codes).values() if isinstance(one, kind))


def _rows(endings: list[Ending]) -> str:
    return "".join(f"| {one.code} | {one.reason} |\n" for one in endings)
