"""Which fields of a row a caller wants: ``fields=price,match.name``. Values are cut out, never read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from distributary.errors import BadQuery

MAX_PATHS = 200
MAX_DEPTH = 32

_HINT = "write fields=a,b.c and put names with other signs in backquotes: `a.b`"
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.,\s](?:[^`.,]*[^`.,\s])?))\s*")

Tree: TypeAlias = "dict[str, Tree | None]"
"""Fields by name: None takes a field whole, a tree takes some of its own fields."""

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Fields:
    """A choice of fields; ``text`` is its normal form: equal choices have equal text."""

    tree: Tree = field(compare=False)
    text: str

    def has(self, path: Sequence[str]) -> bool:
        """Say whether all of what stands at a path is among these fields."""
        tree: Tree | None = self.tree
        for name in path:
            if tree is None:
                return True
            if name not in tree:
                return False
            tree = tree[name]
        return tree is None

    def within(self, other: Fields) -> Fields:
        """Choose what both choose."""
        return _fields(_both(self.tree, other.tree))

    def project(self, row: bytes) -> bytes:
        """Give the row with these fields alone. What it does not have is left out."""
        return _project(row, self.tree) or b"{}"

    def change(
        self, changed: Mapping[str, msgspec.Raw], gone: Iterable[str] = ()
    ) -> tuple[dict[str, bytes], list[str]]:
        """Give the part of a change that concerns these fields: values that are new, fields that went away.

        A field whose new value has none of what is wanted of it is gone, as it is in the row. Whoever applies
        this to a row of these fields has the changed row with these fields alone.
        """
        kept: dict[str, bytes] = {}
        lost = [name for name in gone if name in self.tree]
        for name, inner in self.tree.items():
            raw = changed.get(name)
            if raw is not None:
                found = bytes(raw) if inner is None else _project(raw, inner)
                if found:
                    kept[name] = found
                else:
                    lost.append(name)
        return kept, lost


def parse_fields(text: str) -> Fields:
    """Read ``a,b.c``; names may stand in backquotes. Raises BadQuery with the place."""
    tree: Tree = {}
    paths, at = 0, 0
    while True:
        names: list[str] = []
        while True:
            match = _NAME.match(text, at)
            if match is None:
                raise BadQuery(f"fields={text[:80]!r}: expected a name at character {at + 1}", hint=_HINT)
            names.append(match[1].replace("``", "`") if match[1] is not None else match[2])
            at = match.end()
            if text[at : at + 1] != ".":
                break
            at += 1
        paths += 1
        if paths > MAX_PATHS or len(names) > MAX_DEPTH:
            raise BadQuery(
                "fields names too much", hint=f"at most {MAX_PATHS} fields, {MAX_DEPTH} names deep"
            )
        _add(tree, names)
        if at == len(text):
            return _fields(tree)
        if text[at] != ",":
            raise BadQuery(f"fields={text[:80]!r}: expected a comma at character {at + 1}", hint=_HINT)
        at += 1


def _add(tree: Tree, names: list[str]) -> None:
    """Put a path into the tree; a field that is taken whole already stays so."""
    for name in names[:-1]:
        inner = tree.setdefault(name, {})
        if inner is None:
            return
        tree = inner
    tree[names[-1]] = None


def _both(one: Tree, other: Tree) -> Tree:
    found: Tree = {}
    for name in one.keys() & other.keys():
        inner, outer = one[name], other[name]
        if inner is None or outer is None:
            found[name] = inner if outer is None else outer
        elif both := _both(inner, outer):
            found[name] = both
    return found


def _fields(tree: Tree) -> Fields:
    ordered = _ordered(tree)
    try:
        return Fields(ordered, _encode(ordered).decode())
    except UnicodeEncodeError:
        raise BadQuery("a field name contains invalid Unicode (a lone surrogate)", hint=_HINT) from None


def _ordered(tree: Tree) -> Tree:
    return {name: inner and _ordered(inner) for name, inner in sorted(tree.items())}


def _project(value: bytes | msgspec.Raw, tree: Tree) -> bytes:
    """Cut the tree's fields out of a JSON object; empty when there is none of them."""
    try:
        row = _decode(value)
    except msgspec.MsgspecError:  # not an object
        return b""
    parts: list[bytes] = []
    for name, inner in tree.items():
        raw = row.get(name)
        if raw is None:
            continue
        found = bytes(raw) if inner is None else _project(raw, inner)
        if found:
            parts.append(b"%b:%b" % (_encode(name), found))
    return b"{%b}" % b",".join(parts) if parts else b""
