from __future__ import annotations

import pytest

from distributary.auth.jwt_checks import REASONS, refuse
from distributary.auth.told import told
from distributary.errors import (
    CredentialsMissing,
    DistributaryError,
    Forbidden,
    KeysUnavailable,
    StoreUnavailable,
    TokenExpired,
)


@pytest.mark.parametrize(
    ("error", "code", "close", "temporary"),
    [
        (TokenExpired("x"), 109, False, False),
        (CredentialsMissing("x"), 3500, True, False),
        (Forbidden("x"), 103, False, False),
        (KeysUnavailable("x"), 100, False, True),
        (StoreUnavailable("x"), 100, False, True),
    ],
)
def test_each_error_has_its_number(error: DistributaryError, code: int, close: bool, temporary: bool) -> None:
    said = told(error)
    assert (said.code, said.close, said.temporary) == (code, close, temporary)


@pytest.mark.parametrize("reason", REASONS)
def test_a_refused_token_does_not_come_back_but_an_expired_one_does(reason: str) -> None:
    said = told(refuse(reason, "x"))
    assert (said.code, said.close) == ((109, False) if reason == "expired" else (3500, True))


def test_a_connection_that_outlived_its_token_comes_back_with_another() -> None:
    assert told(TokenExpired("x"), connected=True).code == 3005
    assert told(refuse("revoked", "x"), connected=True)[:2] == (3500, "token revoked")
