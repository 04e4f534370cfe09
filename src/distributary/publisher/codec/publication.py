"""Publications: what subscribers are sent of a row's change, as JSON that both formats carry as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from distributary.model.field_mask import FieldMask

Publication = tuple[int, bytes]
"""A change's number and its data as JSON."""

encode_json = msgspec.json.Encoder().encode

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_names = msgspec.json.Decoder(list[str]).decode

_CHANGE_MEMBERS = frozenset(("op", "key", "time", "changed", "gone"))
"""What a publication says of a change of fields. With anything else in it, it is sent in any case."""


class PublicationData(msgspec.Struct, gc=False):
    """The decoded data of a publication about a row."""

    op: str
    key: str
    time: int = 0
    row: msgspec.Raw = msgspec.Raw(b"")
    changed: dict[str, msgspec.Raw] = {}
    gone: list[str] = []


class RowChange(NamedTuple):
    """A publication, together with the members of its data that most readers need."""

    seq: int
    data: bytes
    op: str
    key: str
    time: int


decode_publication = msgspec.json.Decoder(PublicationData).decode


def row_change(publication: Publication) -> RowChange:
    """Decode a publication."""
    found = decode_publication(publication[1])
    return RowChange(publication[0], publication[1], found.op, found.key, found.time)


def row_data(key: str, time: int, row: bytes) -> bytes:
    """Write that a row now has this value, whether or not it existed before."""
    return b'{"op":"add","key":%b,"time":%d,"row":%b}' % (encode_json(key), time, row)


def removal_data(key: str, time: int) -> bytes:
    """Write that a row does not exist any more."""
    return b'{"op":"remove","key":%b,"time":%d}' % (encode_json(key), time)


def with_rank(data: bytes, at: int) -> bytes:
    """Add the rank of its row, counted from 0, to a publication's data."""
    return b'%b,"at":%d}' % (data[:-1], at)


def project_data(fields: FieldMask, data: bytes) -> bytes | None:
    """Reduce a publication's data to these fields; None when it says nothing about them.

    Everything else in it is unchanged.
    """
    members = _decode_object(data)
    row, changed, gone = members.get("row"), members.get("changed"), members.pop("gone", None)
    if row is not None:
        members["row"] = msgspec.Raw(fields.project(bytes(row)))
    if changed is not None:
        values, removed = fields.change(
            _decode_object(changed), _decode_names(gone) if gone is not None else ()
        )
        if not values and not removed and members.keys() <= _CHANGE_MEMBERS:
            return None
        body = b",".join([b"%b:%b" % (encode_json(name), value) for name, value in values.items()])
        members["changed"] = msgspec.Raw(b"{%b}" % body)
        if removed:
            members["gone"] = msgspec.Raw(encode_json(removed))
    return encode_json(members)


def project_publications(fields: FieldMask | None, publications: Iterable[Publication]) -> list[Publication]:
    """Reduce publications to these fields (None: all); those that say nothing about them are left out."""
    if fields is None:
        return list(publications)
    found = ((seq, project_data(fields, data)) for seq, data in publications)
    return [(seq, data) for seq, data in found if data is not None]


def one_line(data: bytes) -> bytes:
    """Put data on one line, for formats that separate messages by newlines.

    Within JSON a raw line break can only be white space between tokens.
    """
    if b"\n" in data or b"\r" in data:
        return data.replace(b"\n", b" ").replace(b"\r", b" ")
    return data
