"""What a view's SQL may not do: read anything but its record, or call into the JVM.

A view's definition comes over REST, too, and its SQL runs in the reducers' JVM. Trees are Spark's own, as the
parser made them.
"""

from __future__ import annotations

from typing import Any

from distributary.errors import BadView

REFUSED = frozenset(
    (
        # Methods of any class on the class path.
        *("reflect", "java_method", "try_reflect"),
        # A function by its name in a text, which would hide the others.
        "call_function",
        # Files and addresses, in their options: descriptors of messages, schemas.
        *("from_protobuf", "to_protobuf", "from_avro", "to_avro", "schema_of_avro"),
        *("from_xml", "to_xml", "schema_of_xml"),
        # The path of what is read.
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
    )
)
"""Functions of Spark that reach beyond a record."""


def check(tree: Any, where: str) -> None:
    """Raise BadView when a parsed expression reads other tables or calls a function that is not allowed."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        kind = str(node.getClass().getSimpleName())
        if "Subquery" in kind or kind in ("Exists", "ListQuery"):
            raise BadView(f"{where}: a view reads its feed alone, so its SQL has no subqueries")
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
