"""The names in a view's SQL: where they are, and which type each must have there.

A type is passed down the parsed tree from what uses a name (the root, a comparison, a function) to the name
itself; a comparison takes it from what the name is compared with. Trees are Spark's own.
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
"""Columns that every feed has besides its value, and the type that they are compared as."""
RESERVED = {*RECORD, "record_crc", "record_passes", "value", "value_bytes", "v"}
"""Internal columns that a select's column of the same name must not hide."""

Path = tuple[str | int, ...]
Columns = dict[str, tuple[str, ...] | None]
"""Names that a select defines: the path of a plain field, None for a computed column."""
Replacements = list[tuple[int, int, str]]
"""Ranges of the text (first and last character), and the SQL that replaces each."""

NUMBER = "decimal(38,18)"
_ROOTS = {"where": "boolean", "time": "time", "select": "variant"}
"""The type of a whole expression; a variant is written as the JSON that was read."""
_ARITHMETIC = {"Add", "Subtract", "Multiply", "Divide", "Remainder", "UnaryMinus", "IntegralDivide"}
_ORDER = {"GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"}
_COMPARE = _ORDER | {"EqualTo", "EqualNullSafe", "In"}
_LOGIC = {"And", "Or", "Not"}
_TIME_TYPES = ("timestamp", "date")
# Functions by the type of their arguments.
_ARRAYS = {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"}
_ARRAYS |= {"size", "element_at", "transform", "filter"}
_NUMERIC = {"abs", "round", "floor", "ceil", "ceiling", "sqrt", "sum", "pow", "power", "log", "exp", "sign"}
_NUMERIC |= {"mod"}
_INTEGER = {"timestamp_millis", "timestamp_seconds", "timestamp_micros"}
_SAME = {"coalesce", "nvl", "ifnull", "nullif", "greatest", "least", "if"}
"""Functions that return one of their arguments."""
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
"""The type that some functions return."""


def replacements(tree: Any, root: str, columns: Columns) -> Replacements:
    """Return every name of a value's field in a tree, with the extraction that replaces it."""
    found: Replacements = []
    _walk(tree, _ROOTS.get(root, "string"), columns, found)
    return found


def extraction(path: Path, type: str, source: str = "v") -> str:
    """Return Spark SQL for a field of a parsed value; null if it is missing or has another type.

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
    """Return one step of a path. Spark has no escapes for it, but three ways to write it."""
    if isinstance(name, int):
        return f"[{name}]"
    if "'" not in name:
        return f"['{name}']"
    if '"' not in name:
        return f'["{name}"]'
    if "." in name or "[" in name:
        raise BadView(f"the field {name!r} contains both kinds of quotes and cannot be named in SQL")
    return f".{name}"


def column(name: str) -> str:
    """Return the internal name of a column that a select defines."""
    return f"select.{name}" if name in RESERVED else name


def attribute(node: Any) -> tuple[str, ...]:
    """Return the parts of a name."""
    parts = node.nameParts()
    return tuple(parts.apply(i) for i in range(parts.size()))


def span(node: Any) -> tuple[int, int]:
    """Return where a node is in the text: first and last character."""
    origin = node.origin()
    return origin.startIndex().get(), origin.stopIndex().get()


def kind_of(node: Any) -> str:
    """Return the name of a node's class."""
    return str(node.getClass().getSimpleName())


def _walk(node: Any, expected: str, columns: Columns, found: Replacements) -> None:
    path = _path(node)
    if path is None:
        children = _children(node)
        for child, type in zip(children, _types(node, children, expected), strict=True):
            _walk(child, type, columns, found)
        return
    first = str(path[0])
    if first in RECORD:
        return
    start, stop = span(node)
    if first not in columns:
        found.append((start, stop, extraction(path, expected)))
    elif (origin := columns[first]) is not None:
        found.append((start, stop, extraction((*origin, *path[1:]), expected)))
    elif len(path) > 1:
        found.append((start, stop, extraction(path[1:], expected, f"`{column(first)}`")))
    else:
        found.append((start, stop, f"`{column(first)}`"))


def _path(node: Any) -> Path | None:
    """Return the path that a name, or a name with constant subscripts, stands for."""
    kind = kind_of(node)
    if kind == "UnresolvedAttribute":
        return attribute(node)
    if kind == "UnresolvedExtractValue":
        base, step = _path(node.child()), node.extraction()
        if base is not None and base[0] not in RECORD and kind_of(step) == "Literal":
            value = step.value()
            return (*base, value if isinstance(value, int) else str(value.toString()))
    return None


def _types(node: Any, children: list[Any], expected: str) -> list[str]:
    """Return the type that each child of a node must have if the node must have ``expected``."""
    kind, name = kind_of(node), _function(node)
    same = [_chosen(children, expected)] * len(children)
    if kind == "Alias":
        return [expected]
    if kind in _LOGIC:
        return ["boolean"] * len(children)
    if kind in _COMPARE or name == "between":
        ordered = kind in _ORDER or name == "between"
        return [_known(children) or ("double" if ordered else "string")] * len(children)
    if kind in _ARITHMETIC:
        return [_sum(children)] * len(children)
    if kind == "CaseWhen":
        one = _chosen(_branches(children), expected)
        return ["boolean" if i % 2 == 0 and i + 1 < len(children) else one for i in range(len(children))]
    if name in ("greatest", "least") and expected == "variant":
        return [_known(children) or "double"] * len(children)
    if name in _SAME:
        return ["boolean", *same[1:]] if name == "if" else same
    if name == "array_contains":
        return [f"array<{_known(children[1:]) or 'string'}>", "string"]
    if name in _ARRAYS:
        return ["array<variant>"] * len(children)
    type = "double" if name in _NUMERIC else "bigint" if name in _INTEGER else "string"
    return [type] * len(children)


def _chosen(options: list[Any], expected: str) -> str:
    """Return the type of all options of an expression that returns one of them."""
    known = _known(options)
    if expected == "variant":
        # A decimal of that width would be written with all its zeros.
        return "double" if known == NUMBER else known or "value"
    return known or expected


def _known(nodes: list[Any]) -> str:
    """Return the type of the first expression that has one of its own; '' if none has."""
    for node in nodes:
        if type := _type_of(node):
            return type
    return ""


def _type_of(node: Any) -> str:
    """Return the type that an expression has by itself; '' if its names decide."""
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
    """Return the type of arithmetic and its operands: numbers, or a time and an interval."""
    types = {_type_of(child) for child in children}
    time_type = next((type for type in _TIME_TYPES if type in types), "")
    return time_type or ("timestamp" if any("interval" in type for type in types) else "double")


def _literal(type: str) -> str:
    if type.startswith("decimal") or type in ("integer", "long", "short", "byte"):
        return NUMBER
    if type in ("double", "float"):
        return "double"
    if type in ("boolean", *_TIME_TYPES) or "interval" in type:
        return type
    return "" if type == "void" else "string"


def _branches(children: list[Any]) -> list[Any]:
    """Return the results of a CASE: every second child, and the last if there is an ELSE."""
    return [*children[1::2], *(children[-1:] if len(children) % 2 else [])]


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(i) for i in range(children.size())]


def _function(node: Any) -> str:
    """Return the name of a function in lower case; '' for anything else."""
    if kind_of(node) != "UnresolvedFunction":
        return ""
    return str(node.nameParts().mkString(".")).lower()
