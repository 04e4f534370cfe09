"""The fields of a row to send: ``fields=price,match.name``. Values are copied as bytes, never decoded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from distributary.errors import BadQuery

MAX_PATHS = 200
MAX_DEPTH = 32

_HINT = "write fields=a,b.c and put names with other characters in backquotes: `a.b`"
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.,\s](?:[^`.,]*[^`.,\s])?))\s*")

Tree: TypeAlias = "dict[str, Tree | None]"
"""Fields by name: None includes a whole field, a tree includes fields inside of it."""

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class FieldMask:
    """A set of fields; ``text`` is its normal form, equal for equal sets."""

    tree: Tree = field(compare=False)
    text: str

    def has(self, path: Sequence[str]) -> bool:
        """Return whether the whole value at a path is included."""
        tree: Tree | None = self.tree
        for name in path:
            if tree is None:
                return True
            if name not in tree:
                return False
            tree = tree[name]
        return tree is None

    def within(self, other: FieldMask) -> FieldMask:
        """Return the fields that both include."""
        return _fields(_both(self.tree, other.tree))

    def project(self, row: bytes) -> bytes:
        """Return the row with only these fields; missing ones are left out."""
        return _project(row, self.tree) or b"{}"

    def change(
        self, changed: Mapping[str, msgspec.Raw], gone: Iterable[str] = ()
    ) -> tuple[dict[str, bytes], list[str]]:
        """Return the part of a change that concerns these fields: new values, and removed fields.

        A field whose new value contains none of the included fields counts as removed, as it is in the row.
        Applied to a row with these fields, the result is the changed row with these fields.
        """
        values: dict[str, bytes] = {}
        removed = [name for name in gone if name in self.tree]
        for name, inner in self.tree.items():
            raw = changed.get(name)
            if raw is not None:
                found = bytes(raw) if inner is None else _project(raw, inner)
                if found:
                    values[name] = found
                else:
                    removed.append(name)
        return values, removed


def parse_field_mask(text: str) -> FieldMask:
    """Parse ``a,b.c``; names may be in backquotes. Raises BadQuery, which names the character."""
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
                "too many fields", hint=f"the limit is {MAX_PATHS} fields, nested {MAX_DEPTH} levels deep"
            )
        _add(tree, names)
        if at == len(text):
            return _fields(tree)
        if text[at] != ",":
            raise BadQuery(f"fields={text[:80]!r}: expected a comma at character {at + 1}", hint=_HINT)
        at += 1


def _add(tree: Tree, names: list[str]) -> None:
    """Add a path to the tree; a field that is already included as a whole stays so."""
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


def _fields(tree: Tree) -> FieldMask:
    ordered = _ordered(tree)
    try:
        return FieldMask(ordered, _encode(ordered).decode())
    except UnicodeEncodeError:
        raise BadQuery("a field name contains invalid Unicode (a lone surrogate)", hint=_HINT) from None


def _ordered(tree: Tree) -> Tree:
    return {name: inner and _ordered(inner) for name, inner in sorted(tree.items())}


def _project(value: bytes | msgspec.Raw, tree: Tree) -> bytes:
    """Return a JSON object with the fields of the tree; empty if it has none of them."""
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
