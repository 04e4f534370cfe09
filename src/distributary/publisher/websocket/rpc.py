"""What a client may ask beside its channels: ``rpc`` methods that answer small things of a view."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from distributary.auth import EVERYTHING, GrantSet, Operator
from distributary.errors import Forbidden
from distributary.model.build import Build
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.websocket_frames import encode
from distributary.publisher.hub import store_reads
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore
from distributary.store.store_types import ViewInfo

log = logging.getLogger(__name__)


class _Asked(msgspec.Struct):
    """The data of every method."""

    view: str


_asked = msgspec.json.Decoder(_Asked)

Method = Callable[[ReaderStore, str, ViewInfo, GrantSet], Awaitable[bytes]]


async def call(store: ReaderStore, method: str, data: bytes, held: GrantSet = EVERYTHING) -> bytes:
    """Answer a call with JSON. Raises Refused, also when the store does not answer.

    ``held`` is what the caller may see; of no other view anything is told.
    """
    found = METHODS.get(method)
    if found is None:
        raise Refused(codes.METHOD_NOT_FOUND)
    try:
        view = _asked.decode(data).view
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Refused(codes.bad_request('data is {"view": NAME}')) from None
    try:
        held.require_view(view)
    except Forbidden as error:
        raise Refused(codes.denied(error.message)) from None
    try:
        info = await store.view(view)
        if info is None or not info.live:
            raise Refused(codes.unknown(f"there is no view {view[:200]}"))
        return await found(store, view, info, held)
    except StaleRead:
        raise Refused(codes.unknown(f"there is no view {view[:200]}")) from None
    except Refused:
        raise
    except Exception as error:
        log.warning("view %r: a call of %r failed (%s)", view[:200], method, error or type(error).__name__)
        raise Refused(codes.INTERNAL) from error


async def _position(store: ReaderStore, view: str, info: ViewInfo, held: GrantSet) -> bytes:
    """Where the view is; refused while it is being built, since that count will not be served."""
    build = await store_reads.require_live(store, Build(view, info.live))
    return encode({"view": view, "position": f"{held.visible_epoch(view, build.epoch)}:{build.seq}"})


async def _status(store: ReaderStore, view: str, info: ViewInfo, held: GrantSet) -> bytes:
    """Whether the view is served and how fresh it is."""
    build = await store.build(Build(view, info.live))
    if build is None:
        raise StaleRead
    said = {
        "view": view,
        "status": build.status,
        "reason": build.reason if held.grants[0].operator >= Operator.READ else "",
        "stale": info.stale,
        "incomplete": build.incomplete,
        "position": f"{held.visible_epoch(view, build.epoch)}:{build.seq}",
    }
    return encode(said)


METHODS: dict[str, Method] = {"position": _position, "status": _status}
