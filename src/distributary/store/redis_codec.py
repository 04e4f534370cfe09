"""Arguments for the Lua scripts, and their replies as values; for both Redis clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distributary.model.build import BuildStatus
from distributary.model.change import Entry, decode_changes
from distributary.model.position import Fingerprint, Mark
from distributary.store.errors import Behind
from distributary.store.row_index import key_of
from distributary.store.store_types import (
    BuildCheckpoint,
    BuildInfo,
    ChangeGroup,
    Claim,
    Claimed,
    Fingerprints,
    LogRead,
    Opened,
    ProcessHeartbeat,
    QueryRow,
    QueryState,
    RegistryChange,
    Row,
    RowPage,
    RowsRead,
    ServerState,
    ViewInfo,
)

Value = str | bytes | int

SILENT_MS = 60_000
"""A process whose last heartbeat is older is left out."""


def parse_row(value: bytes) -> Row:
    """Parse ``seq owner expires json``, with the state of the reduce rule on a second line."""
    seq, owner, expires, json = value.split(b" ", 3)
    state = b""
    if b"\n" in json:
        json, _, state = json.partition(b"\n")
    # Equal to Row(…), in half the time: a snapshot reads every row of a view.
    return tuple.__new__(Row, (int(seq), int(owner), int(expires), json, state))


def write_args(group: ChangeGroup, keep: int) -> list[Value]:
    """Return the arguments of write.lua."""
    p = group.partition
    rows: list[Value] = []
    gone: list[Value] = []
    expiries: list[Value] = []
    written = 0
    for key, (index, json, expires, new) in group.rows.items():
        if json is None:
            gone.append(key)
            continue
        rows += (key, index, 1 if new else 0, b"%d %d %b" % (p, expires, json))
        written += 1
        if expires:
            expiries += (expires, key)
    queries: list[Value] = [item for pair in group.queries.items() for item in pair]
    return [
        p,
        group.epoch,
        group.generation,
        group.token,
        group.number,
        group.version,
        "" if group.follows is None else str(group.follows),
        str(group.mark),
        group.partition_state,
        group.count,
        group.blob,
        group.records,
        group.dead,
        keep,
        written,
        len(gone),
        len(expiries) // 2,
        len(group.queries),
        len(group.index_added),
        len(group.index_removed),
        group.clock,
        group.fingerprint,
        *rows,
        *gone,
        *expiries,
        *queries,
        *group.index_added,
        *group.index_removed,
    ]


def written(reply: Any) -> int:
    """Parse the reply of write.lua; raises Behind."""
    if isinstance(reply, list):
        raise behind(reply)
    return int(reply)


def behind(reply: Any) -> Behind:
    """Parse the reply of registry_changes.lua."""
    version = int(reply[1])
    if reply[0] == b"whole":
        return Behind(version, None)
    steps = []
    for at in range(2, len(reply), 3):
        name, id = reply[at + 1].decode().split(" ", 1)
        text = reply[at + 2].decode() if name[0] == "+" else None
        steps.append(RegistryChange(int(reply[at]), int(name[1:]), id, text))
    return Behind(version, steps)


def query_rows(numbers: Sequence[bytes], texts: Sequence[bytes]) -> list[QueryRow]:
    """Join the two registry hashes."""
    text_of = dict(zip(texts[::2], texts[1::2], strict=True))
    return [
        QueryRow(int(number), id.decode(), text_of[id].decode())
        for id, number in zip(numbers[::2], numbers[1::2], strict=True)
    ]


def opened(reply: Any) -> Opened:
    """Parse the reply of open.lua."""
    epoch, token, mark, state, version, numbers, texts, clock = reply
    return Opened(
        epoch=epoch.decode(),
        token=int(token),
        mark=Mark.parse(mark.decode()) if mark else None,
        partition_state=state.decode(),
        version=int(version),
        queries=query_rows(numbers, texts),
        clock=int(clock),
    )


def assignment(claim: Claim, partitions: Sequence[int]) -> str:
    """Format which Kafka partition each task of a claim's query reads."""
    return f"{claim.generation} {','.join(map(str, partitions))}"


def assigned(claim: Claim, text: str) -> list[int]:
    """Parse what ``assignment`` formatted; empty if it is of another claim."""
    generation, _, partitions = text.partition(" ")
    return [int(one) for one in partitions.split(",")] if generation == str(claim.generation) else []


def fields(flat: Sequence[bytes]) -> dict[str, str]:
    """Parse a flat hash."""
    return {k.decode(): v.decode() for k, v in zip(flat[::2], flat[1::2], strict=True)}


def marks(meta: dict[str, str]) -> dict[int, Mark]:
    """How far each partition is: its last write, or the end of a batch whose rest was filtered out."""
    found = {int(name[2:]): Mark.parse(text) for name, text in meta.items() if name.startswith("m:")}
    for name, text in meta.items():
        if name.startswith("e:"):
            partition = int(name[2:])
            found[partition] = max(found.get(partition, Mark(0)), Mark(int(text)))
    return found


def rekey_offsets(meta: dict[str, str]) -> dict[int, int]:
    """How far each source partition was re-keyed."""
    return {int(name[2:]): int(text) for name, text in meta.items() if name.startswith("h:")}


def fingerprints(meta: dict[str, str]) -> Fingerprints:
    """Return the fingerprints of the records that a build was made from."""

    def under(prefix: str) -> dict[int, Fingerprint]:
        found = ((name, text) for name, text in meta.items() if name.startswith(prefix))
        return {int(name.removeprefix(prefix)): Fingerprint.parse(text) for name, text in found}

    written, filtered = under("f:"), under("fe:")
    read = {p: max(filter(None, (written.get(p), filtered.get(p)))) for p in written.keys() | filtered.keys()}
    return Fingerprints(read, under("fh:"), under("fi:"))


def claimed(reply: Any) -> Claimed:
    """Parse the reply of claim.lua."""
    epoch, generation, renewed, meta = reply
    found = fields(meta)
    claim = Claim(epoch.decode(), int(generation))
    return Claimed(
        claim=claim,
        marks=marks(found),
        rekey_offsets=rekey_offsets(found),
        renewed=bool(renewed),
        fingerprints=fingerprints(found),
    )


def entry(id: bytes, body: Sequence[bytes]) -> Entry:
    """Parse one item of the log's stream: ``n`` count, ``b`` blob."""
    return Entry(int(id.split(b"-")[0]), decode_changes(body[3]))


def floor_of(oldest: Any, seq: int) -> int:
    """Return the number after which the log is complete, from its oldest item."""
    if not oldest:
        return seq
    id, body = oldest[0]
    return int(id.split(b"-")[0]) - int(body[1])


def log_read(reply: Any) -> LogRead:
    """Parse the reply of log.lua."""
    epoch, seq, floor, items = reply
    top = int(seq)
    return LogRead(epoch.decode(), top, int(floor or top), [entry(id, body) for id, body in items])


def checkpoint(text: bytes | None) -> BuildCheckpoint | None:
    """Parse the reply of find_checkpoint.lua: ``time epoch seq partition=mark,…``."""
    if not text:
        return None
    time, epoch, seq, marks = text.decode().split(" ", 3)
    pairs = (one.split("=") for one in marks.split(",") if one)
    return BuildCheckpoint(epoch, int(seq), int(time), {int(p): Mark.parse(mark) for p, mark in pairs})


def query_state(reply: Any) -> QueryState | None:
    """Parse the reply of state.lua."""
    if not reply:
        return None
    number, since, last, epoch, seq, floor, history = reply
    top = int(seq)
    return QueryState(
        number=int(number),
        since=int(since),
        last=int(last),
        epoch=epoch.decode(),
        seq=top,
        floor=int(floor or top),
        history_id=history.decode(),
    )


def page(position: Any, scanned: tuple[int, dict[bytes, bytes]]) -> RowPage:
    """Parse the replies of page.lua and HSCAN."""
    epoch, seq, at = position
    cursor, found = scanned
    rows = [(key.decode(), parse_row(value)) for key, value in found.items()]
    return RowPage(epoch.decode(), int(seq), int(cursor), rows, clocks(at))


def clocks(reply: Sequence[bytes | None]) -> dict[int, int]:
    """Parse the reply of clocks.lua."""
    return {partition: int(at) for partition, at in enumerate(reply) if at}


def rows(keys: Sequence[str], reply: Any) -> RowsRead:
    """Parse the reply of rows.lua."""
    epoch, seq, values, at = reply
    pairs = zip(keys, values, strict=False)  # a reply ends with its last value that is not nil
    found = [(key, parse_row(value)) for key, value in pairs if value is not None]
    return RowsRead(epoch.decode(), int(seq), found, clocks(at))


def rows_found(reply: Any) -> RowsRead | None:
    """Parse the reply of find_by_index.lua."""
    if not reply:
        return None
    epoch, seq, entries, values, at = reply
    names = [key_of(one.decode()) for one in entries]
    pairs = zip(names, values, strict=True)
    rows = [(key, parse_row(value)) for key, value in pairs if value is not None]
    return RowsRead(epoch.decode(), int(seq), rows, clocks(at))


def view_info(hash: dict[str, str], now: int, run_id: str) -> ViewInfo | None:
    """Parse the hash of a view."""
    if not hash:
        return None
    return ViewInfo(
        live=hash.get("live", ""),
        next=hash.get("next", ""),
        definition=hash.get("definition", ""),
        version=int(hash.get("version", "0")),
        last_record=int(hash.get("last_record", "0")),
        now=now,
        run_id=run_id,
        displaced=tuple(hash.get("displaced", "").split()),
    )


def server_state(address: str, views: list[str], info: Mapping[str, Any]) -> ServerState:
    """Parse INFO: whether a server takes writes, and how full it is."""
    refuses = ""
    if info.get("role", "master") != "master":
        refuses = f"it is a replica of {info.get('master_host')}:{info.get('master_port')}"
    elif info.get("aof_last_write_status", "ok") != "ok":
        refuses = "it cannot write its append-only file (is the disk full?)"
    elif info.get("loading"):
        refuses = "it is loading its data"
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    return ServerState(address, answers=True, views=views, refuses=refuses, used=used, limit=limit)


def build_info(meta: dict[str, str], rows: int, oldest: Any) -> BuildInfo | None:
    """Parse the fields of a build."""
    if not meta:
        return None
    seq = int(meta.get("seq", "0"))
    return BuildInfo(
        epoch=meta.get("epoch", ""),
        generation=int(meta.get("gen", "0")),
        seq=seq,
        floor=floor_of(oldest, seq),
        rows=rows,
        status=BuildStatus(meta.get("status", BuildStatus.BUILDING)),
        reason=meta.get("reason", ""),
        incomplete=meta.get("incomplete", "") == "1",
        records=int(meta.get("records", "0")),
        dead=int(meta.get("dead", "0")),
        topic=meta.get("topic", ""),
        definition=meta.get("definition", ""),
        marks=marks(meta),
        partition_states={int(name[2:]): text for name, text in meta.items() if name.startswith("w:")},
        rekey_offsets=rekey_offsets(meta),
        fault=meta.get("fault", ""),
        first=int(meta.get("first", "0")),
        rekey=meta.get("rekey", "") == "1",
        driver=meta.get("driver", ""),
        internal=meta.get("internal", ""),
        fingerprints=fingerprints(meta),
        failed=meta.get("failed", ""),
    )


def flat_entries(items: Any) -> Any:
    """Convert stream items as the client parses them to the form that scripts reply with."""
    return [(id, [x for pair in body.items() for x in pair]) for id, body in items]


def heartbeats(stored: dict[bytes, bytes], now: int) -> tuple[list[ProcessHeartbeat], list[bytes]]:
    """Parse the hash of heartbeats; return those that are recent, and the names of silent processes."""
    recent: list[ProcessHeartbeat] = []
    silent: list[bytes] = []
    for name, value in stored.items():
        when, stats = value.decode().split(" ", 1)
        component, _, id = name.decode().partition("/")
        age = abs(now - int(when))  # one from the future was sent before the clock went back
        if age > SILENT_MS:
            silent.append(name)
        else:
            recent.append(ProcessHeartbeat(component, id, stats, age))
    return sorted(recent), silent
