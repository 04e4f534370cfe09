from __future__ import annotations

import pytest

from distributary.permit import OPEN, Grant, Limits
from distributary.publish.access.quota import Quota
from distributary.publish.wire.codes import Refused

TWO = Grant("ann", limits=Limits(queries=2))


def test_one_user_holds_no_more_than_it_may() -> None:
    quota = Quota()
    quota.take(TWO)
    quota.take(TWO)
    with pytest.raises(Refused) as refused:
        quota.take(TWO)
    assert refused.value.refusal.code == 106
    assert not refused.value.refusal.temporary
    quota.take(Grant("bob", limits=Limits(queries=1)))
    quota.give(TWO)
    quota.take(TWO)
    assert quota.of("ann") == 2


def test_nothing_is_kept_of_whoever_left() -> None:
    quota = Quota()
    for grant in (OPEN, TWO, TWO):
        quota.take(grant)
    for grant in (OPEN, TWO, TWO):
        quota.give(grant)
    assert quota._held == {}


def test_none_at_all() -> None:
    with pytest.raises(Refused):
        Quota().take(Grant("ann", limits=Limits(queries=0)))
