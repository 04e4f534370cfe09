"""The names in a view's SQL: where they stand, and of what type they must be there.

A type is handed down the parsed tree from what uses a name (the root, a comparison, a function) to the
name itself; a comparison takes it from what the name is compared with. Trees are Spark's own.
"""

from __future__ import annotations

from typing import Any

from distributary.errors import BadView

RECORD = {
    "record_key": "string",
    "record_timestamp": "timestamp",
    "record_headers": "",
    "record_partition": "decimal(38,18)",
    "record_offset": "decimal(38,18)",
}
"""Columns that every feed has besides its value, and what is compared with them."""
RESERVED = {*RECORD, "record_crc", "record_passes", "value", "value_bytes", "v"}
"""Columns of ours that a select's column of the same name must not hide."""

Path = tuple[str | int, ...]
Made = dict[str, tuple[str, ...] | None]
"""Names that a select made: the path of a plain field, None for a computed column."""
Found = list[tuple[int, int, str]]
"""Places in the text (first, last) and what to put there."""

NUMBER = "decimal(38,18)"
_ROOTS = {"where": "boolean", "time": "time", "select": "variant"}
"""What a whole text must be; a variant goes out as the JSON that came in."""
_ARITHMETIC = {"Add", "Subtract", "Multiply", "Divide", "Remainder", "UnaryMinus", "IntegralDivide"}
_ORDER = {"GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"}
_COMPARE = _ORDER | {"EqualTo", "EqualNullSafe", "In"}
_LOGIC = {"And", "Or", "Not"}
_MOMENTS = ("timestamp", "date")
# Functions by what their arguments must be.
_ARRAYS = {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"}
_ARRAYS |= {"size", "element_at", "transform", "filter"}
_NUMERIC = {"abs", "round", "floor", "ceil", "ceiling", "sqrt", "sum", "pow", "power", "log", "exp", "sign"}
_NUMERIC |= {"mod"}
_INTEGER = {"timestamp_millis", "timestamp_seconds", "timestamp_micros"}
_SAME = {"coalesce", "nvl", "ifnull", "nullif", "greatest", "least", "if"}
"""Functions that give back one of their arguments."""
_TYPES = {
    "now": "timestamp",
    "current_timestamp": "timestamp",
    "to_timestamp": "timestamp",
    "date_trunc": "timestamp",
    "current_date": "date",
    "to_date": "date",
    "date_add": "date",
    "date_sub": "date",
    **dict.fromkeys(_INTEGER, "timestamp"),
    **dict.fromkeys(_NUMERIC, "double"),
    **dict.fromkeys(("length", "size", "unix_millis", "unix_timestamp", "year", "hour"), NUMBER),
}
"""What some functions give."""


def replacements(tree: Any, root: str, made: Made) -> Found:
    """Find every name of a value's field in a tree, and the extraction to put in its place."""
    found: Found = []
    _walk(tree, _ROOTS.get(root, "string"), made, found)
    return found


def extraction(path: Path, type: str, source: str = "v") -> str:
    """Spark SQL that takes a field out of a parsed value; null when it is not there or not so.

    The type ``time`` is a timestamp or a number of milliseconds; ``value`` is any JSON but null.
    """
    if type == "value":
        whole = extraction(path, "variant", source)
        return f"IF(is_variant_null({whole}), null, {whole})"
    if type == "time":
        millis, text = extraction(path, "bigint", source), extraction(path, "timestamp", source)
        return f"coalesce(timestamp_millis({millis}), {text})"
    steps = '"$' + "".join(map(_step, path)).replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"try_variant_get({source}, {steps}, '{type}')"


def _step(name: str | int) -> str:
    """One step of a path; Spark knows no escapes in it, but three ways to write it."""
    if isinstance(name, int):
        return f"[{name}]"
    if "'" not in name:
        return f"['{name}']"
    if '"' not in name:
        return f'["{name}"]'
    if "." in name or "[" in name:
        raise BadView(f"the field {name!r} has quotes of both kinds and cannot be named in SQL")
    return f".{name}"


def column(name: str) -> str:
    """What a column that a select makes is called before it goes out."""
    return f"select.{name}" if name in RESERVED else name


def attribute(node: Any) -> tuple[str, ...]:
    """The parts of a name."""
    parts = node.nameParts()
    return tuple(parts.apply(i) for i in range(parts.size()))


def span(node: Any) -> tuple[int, int]:
    """Where a node stands in the text: first and last character."""
    origin = node.origin()
    return origin.startIndex().get(), origin.stopIndex().get()


def kind_of(node: Any) -> str:
    """The name of a node's class."""
    return str(node.getClass().getSimpleName())


def _walk(node: Any, wanted: str, made: Made, found: Found) -> None:
    path = _path(node)
    if path is None:
        children = _children(node)
        for child, type in zip(children, _types(node, children, wanted), strict=True):
            _walk(child, type, made, found)
        return
    first = str(path[0])
    if first in RECORD:
        return
    start, stop = span(node)
    if first not in made:
        found.append((start, stop, extraction(path, wanted)))
    elif (origin := made[first]) is not None:
        found.append((start, stop, extraction((*origin, *path[1:]), wanted)))
    elif len(path) > 1:
        found.append((start, stop, extraction(path[1:], wanted, f"`{column(first)}`")))
    else:
        found.append((start, stop, f"`{column(first)}`"))


def _path(node: Any) -> Path | None:
    """The path that a name, or a name with fixed subscripts, stands for."""
    kind = kind_of(node)
    if kind == "UnresolvedAttribute":
        return attribute(node)
    if kind == "UnresolvedExtractValue":
        base, step = _path(node.child()), node.extraction()
        if base is not None and base[0] not in RECORD and kind_of(step) == "Literal":
            value = step.value()
            return (*base, value if isinstance(value, int) else str(value.toString()))
    return None


def _types(node: Any, children: list[Any], wanted: str) -> list[str]:
    """What each child of a node must be, where the node itself must be ``wanted``."""
    kind, name = kind_of(node), _function(node)
    same = [_chosen(children, wanted)] * len(children)
    if kind == "Alias":
        return [wanted]
    if kind in _LOGIC:
        return ["boolean"] * len(children)
    if kind in _COMPARE or name == "between":
        ordered = kind in _ORDER or name == "between"
        return [_known(children) or ("double" if ordered else "string")] * len(children)
    if kind in _ARITHMETIC:
        return [_sum(children)] * len(children)
    if kind == "CaseWhen":
        one = _chosen(_branches(children), wanted)
        return ["boolean" if i % 2 == 0 and i + 1 < len(children) else one for i in range(len(children))]
    if name in ("greatest", "least") and wanted == "variant":
        return [_known(children) or "double"] * len(children)
    if name in _SAME:
        return ["boolean", *same[1:]] if name == "if" else same
    if name == "array_contains":
        return [f"array<{_known(children[1:]) or 'string'}>", "string"]
    if name in _ARRAYS:
        return ["array<variant>"] * len(children)
    type = "double" if name in _NUMERIC else "bigint" if name in _INTEGER else "string"
    return [type] * len(children)


def _chosen(options: list[Any], wanted: str) -> str:
    """What all options of an expression must be, that gives one of them."""
    known = _known(options)
    if wanted == "variant":
        # A decimal of that width would go out with all its zeros.
        return "double" if known == NUMBER else known or "value"
    return known or wanted


def _known(nodes: list[Any]) -> str:
    """The type of the first expression that has one of its own; '' when none has."""
    for node in nodes:
        if type := _type_of(node):
            return type
    return ""


def _type_of(node: Any) -> str:
    """The type that an expression has by itself; '' when its names decide it."""
    kind, name = kind_of(node), _function(node)
    if kind == "Literal":
        return _literal(str(node.dataType().typeName()))
    if kind == "UnresolvedAttribute":
        path = attribute(node)
        return RECORD.get(path[0], "") if len(path) == 1 else ""
    if kind == "Cast":
        return str(node.dataType().sql().lower())
    if kind in _LOGIC or kind in _COMPARE:
        return "boolean"
    if kind == "UnaryMinus":
        return _type_of(node.child()) or "double"
    if kind in _ARITHMETIC:
        return _sum(_children(node))
    if kind == "CaseWhen":
        return _known(_branches(_children(node)))
    if name in _SAME:
        return _known(_children(node)[1 if name == "if" else 0 :])
    return _TYPES.get(name, "")


def _sum(children: list[Any]) -> str:
    """What arithmetic gives, and takes: numbers, or a moment and an interval."""
    types = {_type_of(child) for child in children}
    moment = next((type for type in _MOMENTS if type in types), "")
    return moment or ("timestamp" if any("interval" in type for type in types) else "double")


def _literal(type: str) -> str:
    if type.startswith("decimal") or type in ("integer", "long", "short", "byte"):
        return NUMBER
    if type in ("double", "float"):
        return "double"
    if type in ("boolean", *_MOMENTS) or "interval" in type:
        return type
    return "" if type == "void" else "string"


def _branches(children: list[Any]) -> list[Any]:
    """What a CASE gives: every second child, and the last when there is an ELSE."""
    return [*children[1::2], *(children[-1:] if len(children) % 2 else [])]


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(i) for i in range(children.size())]


def _function(node: Any) -> str:
    """The name of a function, small; '' for anything else."""
    if kind_of(node) != "UnresolvedFunction":
        return ""
    return str(node.nameParts().mkString(".")).lower()
