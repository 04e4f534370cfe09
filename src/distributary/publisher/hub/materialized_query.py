"""Joins of those who need a query's rows kept: their state, and what they missed."""

from __future__ import annotations

from distributary.model.position import Position
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.publication import step_of
from distributary.publisher.hub import store_reads
from distributary.publisher.hub.kept import Broken, Kept, TooMany
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.subscription import Channel, Member, Recovered
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore


async def state(store: ReaderStore, member: Member, most: int) -> Snapshot:
    """Return the rows as they are now. Raises StaleRead, and Refused when there are too many.

    When this returns nothing stands between the rows and the hub: the member can go live at once.
    """
    _, kept = await _rows(store, member, most)
    return kept.snapshot(member.follower.epoch, member.follower.seq)


async def _rows(store: ReaderStore, member: Member, most: int) -> tuple[Channel, Kept]:
    """Wait until the rows are kept; of several who wait the first to have the state gives it to all."""
    follower = member.follower
    while (channel := member.channel) is not None and not member.lost():
        kept = channel.kept
        assert kept is not None
        if kept.ready:
            return channel, kept
        snapshot = await store_reads.shared(store, follower.build, channel)
        if member.lost() or channel.kept is not kept or snapshot.epoch != follower.epoch:
            break
        try:
            kept.settle(snapshot)
        except TooMany:
            raise Refused(codes.too_many_rows(len(snapshot.rows), most)) from None
        except Broken:
            break
    raise StaleRead


async def recover(store: ReaderStore, member: Member, position: Position, most: int) -> bool:
    """Give a member with a pace the newest of every row that changed since its position, if all are known.

    It begins to take changes before the log is read, so that none falls between. Raises StaleRead, Refused.
    """
    follower = member.follower
    channel, kept = await _rows(store, member, most)
    if channel.query.order is not None:
        return False
    paced = channel.enter(member, position.seq)
    assert paced is not None
    since = kept.at(follower.seq)
    found = await store_reads.missed(store, follower.build, channel.query, position)
    if member.lost() or channel.kept is not kept:
        raise StaleRead
    if found is None or found.epoch != follower.epoch or found.seq < since:
        channel.hold_back(member)
        return False
    member.tell(Recovered(found.epoch, position.seq, ()))
    member.end_turn()  # the rest comes as the reader takes it
    paced.start((step_of(pub) for pub in found.pubs if pub[0] <= since), found.seq)
    return True
