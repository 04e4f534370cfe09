from __future__ import annotations

import pytest

from distributary.auth import Grant, GrantSet
from distributary.auth.jwt_checks import REASONS, refuse
from distributary.errors import (
    CredentialsMissing,
    DistributaryError,
    Forbidden,
    KeysUnavailable,
    StoreUnavailable,
    TokenExpired,
)
from distributary.model.query import Query
from distributary.model.query_params import parse_channel
from distributary.publisher.access_control import narrowed
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending, Refusal, Refused, protocol_error, to_refused

GERMAN = GrantSet((Grant("ann", views=("odds",), rows=(("*", "c = 'DE'"),)),))


@pytest.mark.parametrize(
    ("error", "at_first", "later"),
    [
        (TokenExpired("x"), codes.TOKEN_EXPIRED, codes.EXPIRED),
        (
            refuse("audience", "x"),
            Ending(3500, "invalid token: audience"),
            Ending(3500, "invalid token: audience"),
        ),
        (
            CredentialsMissing("x"),
            Ending(3500, "a token or an API key is needed"),
            Ending(3500, "a token or an API key is needed"),
        ),
        (refuse("revoked", "x"), Ending(3500, "token revoked"), Ending(3500, "token revoked")),
        (StoreUnavailable("x"), codes.INTERNAL, codes.INTERNAL),
        (KeysUnavailable("x"), codes.INTERNAL, codes.INTERNAL),
        (Forbidden("x"), codes.denied("x"), codes.denied("x")),
    ],
)
def test_error_becomes_its_code(
    error: DistributaryError, at_first: Refusal | Ending, later: Refusal | Ending
) -> None:
    assert protocol_error(error) == at_first
    assert protocol_error(error, connected=True) == later
    assert isinstance(protocol_error(error), type(at_first))
    assert to_refused(error).refusal.code in (100, 103, 109), "one command does not end the rest"


@pytest.mark.parametrize("reason", REASONS)
def test_client_reconnects_with_an_expired_token_only(reason: str) -> None:
    expected = Refusal if reason == "expired" else Ending
    assert isinstance(protocol_error(refuse(reason, "x")), expected)
    assert protocol_error(refuse(reason, "x")).code == (109 if reason == "expired" else 3500)


def test_query_is_narrowed_to_the_allowed_rows_and_fields() -> None:
    served = narrowed(parse_channel("odds?where=s%20%3D%20'f'"), GERMAN)
    assert served.query == Query.parse("odds", "s = 'f' and c = 'DE'")
    assert served.query_id == served.query.id
    by_id = parse_channel("q:odds:0123456789abcdef")
    assert narrowed(by_id, GERMAN) == by_id


@pytest.mark.parametrize("channel", ["bets", "bets?keys=a", "q:bets:0123456789abcdef"])
def test_view_that_is_not_allowed_is_refused(channel: str) -> None:
    with pytest.raises(Refused) as caught:
        narrowed(parse_channel(channel), GERMAN)
    assert caught.value.refusal.code == 103
