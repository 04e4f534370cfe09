"""The ``rpc`` methods: what a client may ask about a view without subscribing to it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from distributary.auth import EVERYTHING, GrantSet, Operator
from distributary.errors import Forbidden
from distributary.model.build import Build
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.publication import encode_json
from distributary.publisher.hub.snapshot import require_live
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore
from distributary.store.store_types import ViewInfo

log = logging.getLogger(__name__)


class _Data(msgspec.Struct):
    """The data of every method."""

    view: str


_data = msgspec.json.Decoder(_Data)

Method = Callable[[ReaderStore, str, ViewInfo, GrantSet], Awaitable[bytes]]


async def call(store: ReaderStore, method: str, data: bytes, grants: GrantSet = EVERYTHING) -> bytes:
    """Return a method's result as JSON. Raises Refused, also when the store does not respond.

    ``grants`` is what the caller may see; about other views nothing is revealed.
    """
    found = METHODS.get(method)
    if found is None:
        raise Refused(codes.METHOD_NOT_FOUND)
    try:
        view = _data.decode(data).view
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Refused(codes.bad_request('data must be {"view": NAME}')) from None
    try:
        grants.require_view(view)
    except Forbidden as error:
        raise Refused(codes.denied(error.message)) from None
    try:
        info = await store.view(view)
        if info is None or not info.live:
            raise Refused(codes.unknown(f"there is no view {view[:200]}"))
        return await found(store, view, info, grants)
    except StaleRead:
        raise Refused(codes.unknown(f"there is no view {view[:200]}")) from None
    except Refused:
        raise
    except Exception as error:
        log.warning("view %r: a call of %r failed (%s)", view[:200], method, error or type(error).__name__)
        raise Refused(codes.INTERNAL) from error


async def _position(store: ReaderStore, view: str, info: ViewInfo, grants: GrantSet) -> bytes:
    """Return the view's position; refused while it is being built, since that count will not be served."""
    build = await require_live(store, Build(view, info.live))
    return encode_json({"view": view, "position": f"{grants.visible_epoch(view, build.epoch)}:{build.seq}"})


async def _status(store: ReaderStore, view: str, info: ViewInfo, grants: GrantSet) -> bytes:
    """Return whether the view is served and how fresh it is."""
    build = await store.build(Build(view, info.live))
    if build is None:
        raise StaleRead
    status = {
        "view": view,
        "status": build.status,
        "reason": build.reason if grants.grants[0].operator >= Operator.READ else "",
        "stale": info.stale,
        "incomplete": build.incomplete,
        "position": f"{grants.visible_epoch(view, build.epoch)}:{build.seq}",
    }
    return encode_json(status)


METHODS: dict[str, Method] = {"position": _position, "status": _status}
