"""Compiles a view's SQL for the JVM, and refuses SQL that is not allowed.

A JSON value has no schema, so each name in ``key``, ``where`` and ``select`` is replaced by an extraction
from the parsed value, typed by how it is used: compared with a number it is a decimal, with a string a
string, and so on (``column_types.py``). The SQL is parsed by Spark itself; only names are replaced, where
Spark's parser reports them.

A view's definition also comes over REST, and its SQL runs in the reducers' JVM: it may not read anything but
its record, or call into the JVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from distributary.config import Config
from distributary.config.aggregates import parse_aggregate
from distributary.errors import BadView
from distributary.model.build import Definition
from distributary.model.feed import Feed
from distributary.model.position import CHECKSUM_SQL
from distributary.model.view import View
from distributary.reducers.column_types import RECORD, Columns, attribute, column, kind_of, replacements, span
from distributary.reducers.confluent_framing import NOTHING, Known, decode_sql
from distributary.reducers.event_fold import event_rule_of
from distributary.reducers.record_codec import Pick, Projection, pack_sql
from distributary.reducers.reduce_rules import rule_of

REFUSED = frozenset(
    (
        # They call methods of any class on the class path.
        *("reflect", "java_method", "try_reflect"),
        # It calls a function by a name in a string, which would hide the others.
        "call_function",
        # Their options name files and URLs: message descriptors, schemas.
        *("from_protobuf", "to_protobuf", "from_avro", "to_avro", "schema_of_avro"),
        *("from_xml", "to_xml", "schema_of_xml"),
        # They return the path of what is read.
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
    )
)
"""Functions of Spark that reach beyond a record."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the JVM does for a view before its reducer: all strings are Spark SQL."""

    source: tuple[str, ...]
    where: str | None
    computed: tuple[str, ...]
    select: tuple[str, ...]
    packed: str
    projection: Projection
    decode: tuple[str, ...] = ()
    """Columns that are computed first, for values that name their schema."""


def check_definition(config: Config, definition: Definition) -> None:
    """Raise BadView for functions that are not allowed or do not exist, and for an unusable format."""
    view, _, events = definition
    for name in config.unlisted_functions(view):
        raise BadView(
            f"view {view.name}: the function {name} is not allowed",
            hint="Name it in auth.functions, or put the view into the configuration file",
        )
    try:
        rule_of(view)
        if events is not None:
            event_rule_of(view)
    except ValueError as error:
        raise BadView(f"view {view.name}: {error}") from None
    if events is not None and events.named_schemas:
        raise BadView(f"view {view.name}: an event feed cannot have the format avro, or be framed")


class Compiler:
    """Compiles plans with the parser of a running Spark."""

    def __init__(self, spark: Any) -> None:
        self._parser = spark._jsparkSession.sessionState().sqlParser()

    def compile(self, view: View, feed: Feed, known: Known = NOTHING) -> Plan:
        """Compile a view; raises BadView with Spark's own message if its SQL cannot be parsed.

        ``known`` is for a feed in Avro.
        """
        json = feed.format in ("json", "avro")
        named = feed.named_schemas
        source = [
            "cast(key as string) AS record_key",
            "timestamp AS record_timestamp",
            "headers AS record_headers",
            "partition AS record_partition",
            "offset AS record_offset",
            CHECKSUM_SQL,
            f"{'coalesce(decoded, value)' if named else 'value'} AS value_bytes",
        ]
        if feed.format == "text":
            source.append("cast(value as string) AS value")
        elif feed.format == "bytes":
            source.append("value")
        where = self._rewrite(view, "where", view.where, json) if view.where else None
        items, picks = self._columns(view, json)
        columns: Columns = {pick.name: pick.path for pick in picks or ()}
        columns |= {_name(item): None for item in items if _name(item) not in RECORD}
        key = self._row_key(view, feed, json, columns)
        time = self._rewrite(view, "time", view.time, json, columns) if view.time else "record_timestamp"
        uses = where is not None or key != "record_key" or bool(items) or view.time is not None
        parses = json and (named or uses)
        if parses:
            source.append(f"try_parse_json(cast({'decoded' if named else 'value'} as string)) AS v")
        unparsed = "(v IS NULL AND value_bytes IS NOT NULL)" if parses else "false"
        if where is not None:
            where = f"coalesce({where}, false)" + (f" OR {unparsed}" if parses else "")
            # A tombstone has no fields to compare: it must reach the reducer to remove its row.
            where += " OR value_bytes IS NULL"
        names = ["record_partition", "record_offset", "record_timestamp", "record_crc", "value_bytes"]
        computed = [*RECORD, "record_crc", "value_bytes", *(["v"] if parses else []), *items] if items else []
        if computed and not json:
            computed.insert(0, "value")
        select = [
            *names,
            *(f"`{column(_name(item))}`" for item in items),
            f"cast({key} as string) AS row_key",
        ]
        select.append(f"{_millis(time, view)} AS event_time")
        select.append(f"{unparsed} AS unparsed")
        projection = Projection()
        value = "value_bytes"
        if items or picks is not None:
            outputs = ", ".join(f"`{column(_name(item))}` AS `{_name(item)}`" for item in items)
            line = f"cast(to_json(struct({outputs})) as binary)" if items else None
            projection = Projection(tuple(picks or ()), bool(items))
            value = f"concat({line}, X'0A', value_bytes)" if line else "value_bytes"
        elif feed.format == "text":
            value = "cast(to_json(struct(cast(value_bytes as string) AS value)) as binary)"
            value = f"IF(value_bytes IS NULL, cast(null as binary), {value})"
        elif feed.format == "bytes":
            value = "cast(to_json(struct(base64(value_bytes) AS value)) as binary)"
            value = f"IF(value_bytes IS NULL, cast(null as binary), {value})"
        packed = pack_sql("row_key", value, "event_time", "unparsed")
        decode = decode_sql(feed, known) if named else ()
        return Plan(
            source=tuple(source),
            where=where,
            computed=tuple(computed),
            select=tuple(select),
            packed=packed,
            projection=projection,
            decode=decode,
        )

    def _row_key(self, view: View, feed: Feed, json: bool, columns: Columns) -> str:
        """Return the SQL of the row key.

        A tombstone has no field to read it from. If the feed is partitioned by the view's key field, the
        record's key has the same value and is used, unless a column of ``select`` has the field's name.
        """
        if not view.key:
            return "record_key"
        key = self._rewrite(view, "key", view.key, json, columns)
        if view.is_keyed_like(feed) and key == self._rewrite(view, "key", view.key, json):
            return f"IF(value_bytes IS NULL, record_key, cast({key} as string))"
        return key

    def _columns(self, view: View, json: bool) -> tuple[list[str], list[Pick] | None]:
        """Split a select (or the arguments of aggregates) into computed columns and plain picks."""
        if view.reduce == "aggregate":
            arguments = [
                (name, argument)
                for name, text in view.aggregates.items()
                if (argument := parse_aggregate(text)[1])
            ]
            text = ", ".join(f"{argument} AS `{name}`" for name, argument in arguments)
            if view.key and view.key.isidentifier() and view.key not in view.aggregates:
                text = f"{view.key}, {text}" if text else view.key
        else:
            text = view.select or ""
        if not text:
            return [], ([] if view.reduce == "aggregate" else None)
        prefix = "SELECT "
        tree = self._parse(view, "select", lambda: self._parser.parsePlan(prefix + text))
        if kind_of(tree) != "Project":
            raise BadView(f"view {view.name}: select: expected a list of columns, not {text!r}")
        if kind_of(tree.child()) != "OneRowRelation":
            raise BadView(f"view {view.name}: select: a view reads only its feed, so FROM is not allowed")
        columns = tree.projectList()
        items: list[str] = []
        picks: list[Pick] = []
        for i in range(columns.size()):
            node = columns.apply(i)
            check_sql(node, f"view {view.name}: select")
            kind = kind_of(node)
            start, stop = span(node)
            child = node.child() if kind in ("Alias", "UnresolvedAlias") else node
            child_kind = kind_of(child)
            name = node.name() if kind == "Alias" else ""
            if "Star" in child_kind:
                raise BadView(
                    f"view {view.name}: select: * cannot be combined with other columns",
                    hint="Omit select to keep the whole value, or name the fields",
                )
            if child_kind == "UnresolvedAttribute":
                path = attribute(child)
                out = name or path[-1]
                if json and path[0] not in RECORD:
                    picks.append(Pick(out, path))
                    continue
                items.append(f"{'.'.join(f'`{p}`' for p in path)} AS `{column(out)}`")
                continue
            start, stop = span(child)
            body = self._replace(prefix + text, child, json, start, stop, "select")
            items.append(f"{body} AS `{column(name or _default(prefix + text, start, stop))}`")
        return items, picks

    def _rewrite(
        self, view: View, setting: str, text: str, json: bool, columns: Columns | None = None
    ) -> str:
        tree = self._parse(view, setting, lambda: self._parser.parseExpression(text))
        check_sql(tree, f"view {view.name}: {setting}")
        return "(" + self._replace(text, tree, json, 0, len(text) - 1, setting, columns or {}) + ")"

    def _parse(self, view: View, setting: str, parse: Any) -> Any:
        from pyspark.errors import PySparkException

        try:
            return parse()
        except PySparkException as error:
            raise BadView(f"view {view.name}: {setting}: {str(error).strip()}") from None

    def _replace(
        self,
        text: str,
        tree: Any,
        json: bool,
        start: int,
        stop: int,
        root: str = "",
        columns: Columns | None = None,
    ) -> str:
        """Replace names by extractions, from the right so that positions stay valid."""
        found = replacements(tree, root, columns or {}) if json else []
        out = text
        for at, end, extraction in sorted(found, reverse=True):
            out = out[:at] + extraction + out[end + 1 :]
        grown = len(out) - len(text)
        return out[start : stop + 1 + grown]


def _millis(time: str, view: View) -> str:
    """Return SQL for the event time in ms: from a timestamp, or a number of ms."""
    return f"unix_millis({time})" if view.time is None else f"unix_millis(cast({time} as timestamp))"


def _default(text: str, start: int, stop: int) -> str:
    return text[start : stop + 1].replace("`", "")


def _name(item: str) -> str:
    """Return the name of a computed column in the row."""
    return item.rsplit(" AS `", 1)[1][:-1].removeprefix("select.")


def check_sql(tree: Any, where: str) -> None:
    """Raise BadView if a parsed expression reads other tables or calls a function that is not allowed."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        kind = str(node.getClass().getSimpleName())
        if "Subquery" in kind or kind in ("Exists", "ListQuery"):
            raise BadView(f"{where}: a view reads only its feed, so subqueries are not allowed")
        if kind == "UnresolvedFunction":
            parts = node.nameParts()
            name = ".".join(parts.apply(i) for i in range(parts.size()))
            if parts.size() > 1 or name.lower() in REFUSED:
                raise BadView(
                    f"{where}: the function {name[:80]!r} is not allowed",
                    hint="Use functions of Spark SQL that work on the record's own values",
                )
        children = node.children()
        waiting += [children.apply(i) for i in range(children.size())]
