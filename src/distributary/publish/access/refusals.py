"""Errors of permission in the words of the wire, and what a subscriber's query becomes under its grants."""

from __future__ import annotations

from dataclasses import replace

from distributary.errors import AccessError, DistributaryError, Forbidden
from distributary.permit import Held, told
from distributary.publish.hub.names import Asked
from distributary.publish.wire import codes
from distributary.publish.wire.codes import Ending, Refusal, Refused


def answer(error: DistributaryError, *, connected: bool = False) -> Refusal | Ending:
    """Say how an error of a gate or a grant is told: as an answer to the command, or by the end of all."""
    said = told(error, connected=connected)
    if said.close:
        return Ending(said.code, said.message)
    if isinstance(error, Forbidden):
        return codes.denied(error.message)
    return Refusal(said.code, said.message, said.temporary)


def refused(error: DistributaryError) -> Refused:
    """Say how an error is told where it ends no more than one command."""
    said = answer(error)
    if isinstance(said, Ending):
        return Refused(codes.denied(said.reason))
    return Refused(said)


def narrowed(asked: Asked, held: Held) -> Asked:
    """Give what is served in place of what was asked for.

    A query that is known by its id alone stays; the hub checks it once it has read it. Raises Refused, and
    BadQuery when the filters together are too much.
    """
    try:
        if asked.query is None:
            held.view(asked.view)
            return asked
        query = held.narrow(asked.query)
    except AccessError as error:
        raise refused(error) from None
    return replace(asked, query=query, query_id=query.id)
