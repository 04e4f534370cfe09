"""Checks across settings: a view's feed exists, its settings fit its rule, ports do not clash."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from distributary.config.document_reader import DocumentReader, Draft
from distributary.config.problems import nearest
from distributary.model.sharding import identity


def check_view(reader: DocumentReader, draft: Draft, feeds: Collection[str]) -> None:
    """Report settings of a view that contradict each other."""
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
            message = 'reduce = "aggregate" requires [views.aggregates], such as total = "sum(stake)"'
            reader.report(draft, "aggregates" if "aggregates" in draft.values else "reduce", message)
        return
    for name in ("aggregates", "window"):
        if draft.get(name):
            reader.report(draft, name, f'requires reduce = "aggregate"; this view has reduce = "{rule}"')


def _check_replay(reader: DocumentReader, draft: Draft) -> None:
    """Replay is exact only if a row has the key of its records, and changes only by them."""
    for name, why in (("key", "has the key of its records"), ("ttl", "never expires")):
        if name not in draft.refused and draft.get(name) is not None:
            reader.report(draft, "replay", f"requires a view whose row {why}: remove {name}, or replay")
    rule = draft.get("reduce")
    if "reduce" not in draft.refused and rule not in ("latest", "merge"):
        reader.report(
            draft, "replay", f'requires reduce = "latest" or "merge"; this view has reduce = "{rule}"'
        )


def check_feed(reader: DocumentReader, draft: Draft) -> None:
    """Report settings of a feed that contradict each other."""
    if not draft.refused & {"format", "framed", "publish"}:
        format = draft.get("format")
        if draft.get("framed") and format not in ("json", "avro"):
            reader.report(draft, "framed", f'requires format = "json"; this feed has "{format}"')
        if draft.get("publish") and (draft.get("framed") or format == "avro"):
            reader.report(
                draft,
                "publish",
                "is not supported for feeds whose records name a schema: use a Kafka producer",
            )
    if draft.refused & {"format", "publish_key"} or not draft.get("publish_key"):
        return
    if draft.get("format") != "json":
        reader.report(
            draft, "publish_key", f'requires format = "json"; this feed has "{draft.get("format")}"'
        )


def _check_events(reader: DocumentReader, draft: Draft) -> None:
    """Report an event feed without a function for each of both feeds."""
    if draft.refused & {"reduce", "events", "reduce_events"}:
        return
    events, function, rule = (draft.get(name) for name in ("events", "reduce_events", "reduce"))
    if events is None:
        if function is not None:
            reader.report(draft, "reduce_events", 'requires events = "…", the feed whose records it folds')
        return
    if function is None:
        reader.report(draft, "events", 'requires reduce_events, such as reduce_events = "rules:tick"')
    if ":" not in rule:
        reader.report(draft, "events", f'requires a function as reduce; this view has reduce = "{rule}"')
    if events == draft.get("feed"):
        reader.report(draft, "events", "is the feed of the view: events must come from another feed")


def _unknown_feed(reader: DocumentReader, draft: Draft, feeds: Collection[str], name: str) -> None:
    feed = draft.get(name)
    near = nearest(feed, feeds)
    message = f'unknown feed "{feed}"'
    if not near:
        message += f" (known: {', '.join(sorted(feeds))})" if feeds else "; add it under [[feeds]]"
    reader.report(draft, name, message, near=near)


def check_store(reader: DocumentReader, draft: Draft) -> None:
    """Report a store with both `url` and `shards`, and a server that is listed twice."""
    if draft.refused & {"url", "shards"}:
        return
    if draft.get("url") and draft.get("shards"):
        reader.report(draft, "shards", "cannot be combined with url: set one of the two")
    names = [identity(address) for address in draft.get("shards")]
    for at, name in enumerate(names):
        if name in names[:at]:
            reader.report(draft, "shards", f"the server {name.replace(' ', ', database ')} is listed twice")


def check_tls(reader: DocumentReader, draft: Draft) -> None:
    """Report TLS settings without a certificate."""
    if "tls_certificate" not in draft.refused and not draft.get("tls_certificate"):
        for name in ("tls_key", "tls_client_ca"):
            if name not in draft.refused and draft.get(name):
                reader.report(draft, name, "requires tls_certificate")


def check_kafka_tls(reader: DocumentReader, draft: Draft) -> None:
    """Report TLS of an embedded broker that is not secure: such a broker does not use TLS."""
    if "tls_certificate" in draft.refused or "secure" in draft.refused:
        return
    if draft.get("tls_certificate") and not draft.get("secure"):
        reader.report(draft, "tls_certificate", "requires secure = true")
    if draft.get("tls_key") and not draft.get("tls_certificate"):
        reader.report(draft, "tls_key", "requires tls_certificate")


def check_ports(reader: DocumentReader, sections: Mapping[str, Draft]) -> None:
    """Report two listeners with the same port, at the one that was set (of two, the later)."""
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
            reader.report(*at, f"port {port} is also used by {other[0].key(other[1])}")
