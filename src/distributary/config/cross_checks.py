"""What must hold between settings: a view's feed exists, its parts fit its rule, ports do not clash."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from distributary.config.document_reader import Draft, Reader
from distributary.config.problems import nearest
from distributary.model.sharding import identity


def check_view(reader: Reader, draft: Draft, feeds: Collection[str]) -> None:
    """Note what does not fit together in one view."""
    for name in ("feed", "events"):
        if name not in draft.refused and draft.get(name) not in (*feeds, None):
            _unknown_feed(reader, draft, feeds, name)
    _check_events(reader, draft)
    if draft.get("replay") is True:
        _check_replay(reader, draft)
    if draft.refused & {"reduce", "aggregates"}:
        return
    rule = draft.get("reduce")
    if rule == "aggregate":
        if not draft.get("aggregates"):
            said = 'reduce = "aggregate" needs [views.aggregates], such as total = "sum(stake)"'
            reader.note(draft, "aggregates" if "aggregates" in draft.values else "reduce", said)
        return
    for name in ("aggregates", "window"):
        if draft.get(name):
            reader.note(draft, name, f'needs reduce = "aggregate"; this view has reduce = "{rule}"')


def _check_replay(reader: Reader, draft: Draft) -> None:
    """Replay is exact only where a row has its record's key, and changes by its records alone."""
    for name, why in (("key", "has the key of its records"), ("ttl", "never ends by itself")):
        if name not in draft.refused and draft.get(name) is not None:
            reader.note(draft, "replay", f"needs a view whose row {why}: leave {name} out, or replay")
    rule = draft.get("reduce")
    if "reduce" not in draft.refused and rule not in ("latest", "merge"):
        reader.note(draft, "replay", f'needs reduce = "latest" or "merge"; this view has reduce = "{rule}"')


def check_feed(reader: Reader, draft: Draft) -> None:
    """Note what does not fit together in one feed."""
    if not draft.refused & {"format", "framed", "publish"}:
        format = draft.get("format")
        if draft.get("framed") and format not in ("json", "avro"):
            reader.note(draft, "framed", f'needs format = "json"; this feed has "{format}"')
        if draft.get("publish") and (draft.get("framed") or format == "avro"):
            reader.note(draft, "publish", "is for feeds whose records name no schema: those are produced")
    if draft.refused & {"format", "publish_key"} or not draft.get("publish_key"):
        return
    if draft.get("format") != "json":
        reader.note(draft, "publish_key", f'needs format = "json"; this feed has "{draft.get("format")}"')


def _check_events(reader: Reader, draft: Draft) -> None:
    """An event feed goes with functions for both feeds."""
    if draft.refused & {"reduce", "events", "reduce_events"}:
        return
    events, function, rule = (draft.get(name) for name in ("events", "reduce_events", "reduce"))
    if events is None:
        if function is not None:
            reader.note(draft, "reduce_events", 'needs events = "…", the feed whose records it folds')
        return
    if function is None:
        reader.note(draft, "events", 'needs reduce_events, such as reduce_events = "rules:tick"')
    if ":" not in rule:
        reader.note(draft, "events", f'needs a function as reduce; this view has reduce = "{rule}"')
    if events == draft.get("feed"):
        reader.note(draft, "events", "is the view's feed already: events come from a feed of their own")


def _unknown_feed(reader: Reader, draft: Draft, feeds: Collection[str], name: str) -> None:
    feed = draft.get(name)
    near = nearest(feed, feeds)
    said = f'there is no feed "{feed}"'
    if not near:
        said += f" (there are {', '.join(sorted(feeds))})" if feeds else "; describe one under [[feeds]]"
    reader.note(draft, name, said, near=near)


def check_store(reader: Reader, draft: Draft) -> None:
    """Note a store with both one address and several, and a server that is named twice."""
    if draft.refused & {"url", "shards"}:
        return
    if draft.get("url") and draft.get("shards"):
        reader.note(draft, "shards", "takes the place of url: name the server in one of the two")
    names = [identity(address) for address in draft.get("shards")]
    for at, name in enumerate(names):
        if name in names[:at]:
            reader.note(draft, "shards", f"the server {name.replace(' ', ', database ')} is named twice")


def check_tls(reader: Reader, draft: Draft) -> None:
    """Note what means nothing without a certificate."""
    if "tls_certificate" not in draft.refused and not draft.get("tls_certificate"):
        for name in ("tls_key", "tls_client_ca"):
            if name not in draft.refused and draft.get(name):
                reader.note(draft, name, "needs tls_certificate, without which there is no TLS")


def check_kafka_tls(reader: Reader, draft: Draft) -> None:
    """Note TLS of an embedded broker that wants no passwords: then it speaks plainly."""
    if "tls_certificate" in draft.refused or "secure" in draft.refused:
        return
    if draft.get("tls_certificate") and not draft.get("secure"):
        reader.note(draft, "tls_certificate", "needs secure = true, without which the broker is a plain one")
    if draft.get("tls_key") and not draft.get("tls_certificate"):
        reader.note(draft, "tls_key", "needs tls_certificate, without which there is no TLS")


def check_ports(reader: Reader, sections: Mapping[str, Draft]) -> None:
    """Note two listeners with the same port, at the one that was given (of two, the later)."""
    taken: dict[int, tuple[Draft, str]] = {}
    listeners = (("publisher", "port"), ("publisher", "http_port"), ("control", "port"), ("gateway", "port"))
    for section, name in listeners:
        draft = sections[section]
        if name in draft.refused:
            continue
        port = draft.get(name)
        first = taken.setdefault(port, (draft, name))
        if first != (draft, name):
            at, other = ((draft, name), first) if name in draft.values else (first, (draft, name))
            reader.note(*at, f"the port {port} is also {other[0].key(other[1])}")
