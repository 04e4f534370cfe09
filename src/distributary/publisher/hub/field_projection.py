"""Some fields of the rows: what a subscriber with a field list is sent.

Nothing is remembered between two publications: each is cut by itself, once for all who asked for the same
fields of the same channel. A change of other fields alone is not sent, so the numbers have more gaps; a later
position covers what was left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from distributary.model.field_mask import Fields
from distributary.publisher.codec.websocket_frames import Pub, encode

if TYPE_CHECKING:
    from distributary.publisher.hub.subscription import Member, Outlet, Write

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_names = msgspec.json.Decoder(list[str]).decode

_SAID = frozenset(("op", "key", "time", "changed", "gone"))


def project(fields: Fields, data: bytes) -> bytes | None:
    """Cut a publication's data down to these fields; None when it has nothing to say of them.

    Whatever else it says stays as it is.
    """
    said = _decode(data)
    row, changed, gone = said.get("row"), said.get("changed"), said.pop("gone", None)
    if row is not None:
        said["row"] = msgspec.Raw(fields.project(bytes(row)))
    if changed is not None:
        kept, lost = fields.change(_decode(changed), _names(gone) if gone is not None else ())
        if not kept and not lost and said.keys() <= _SAID:
            return None
        body = b",".join([b"%b:%b" % (encode(name), value) for name, value in kept.items()])
        said["changed"] = msgspec.Raw(b"{%b}" % body)
        if lost:
            said["gone"] = msgspec.Raw(encode(lost))
    return encode(said)


def some(fields: Fields | None, pubs: Iterable[Pub]) -> list[Pub]:
    """Cut publications down to these fields; those that have nothing to say of them are left out."""
    if fields is None:
        return list(pubs)
    found = ((seq, project(fields, data)) for seq, data in pubs)
    return [(seq, data) for seq, data in found if data is not None]


class ProjectedOutlet:
    """Implements ``Outlet``: another outlet, of some fields. Encodes to nothing where there is nothing."""

    def __init__(self, inner: Outlet, fields: Fields) -> None:
        self.key = f"{inner.key}\0{fields.text}"
        self.live: dict[Member, Write] = {}
        self._inner = inner
        self._fields = fields

    def encode(self, epoch: str, pubs: Sequence[Pub]) -> bytes:
        """Encode what these publications say of the fields."""
        found = some(self._fields, pubs)
        return self._inner.encode(epoch, found) if found else b""

    def notice(self, data: bytes) -> bytes:
        """Encode a notice: it is not of rows."""
        return self._inner.notice(data)


def projected(outlet: Outlet, fields: Fields | None) -> Outlet:
    """Make an outlet of some fields; without a list it is of all."""
    return outlet if fields is None else ProjectedOutlet(outlet, fields)
