from __future__ import annotations

import pytest

from distributary.errors import Forbidden
from distributary.permit import OPEN, Grant, Need, demand

READER = Grant("ann", views=("odds",))
WATCHER = Grant("eve", monitor=True)
BOSS = Grant("boss", admin=True)


@pytest.mark.parametrize(
    ("need", "may"),
    [
        (Need.OPEN, (READER, WATCHER, BOSS)),
        (Need.USER, (READER, WATCHER, BOSS)),
        (Need.VIEW, (READER,)),
        (Need.ROWS, (READER,)),
        (Need.MONITOR, (WATCHER, BOSS)),
        (Need.ADMIN, (BOSS,)),
    ],
)
def test_who_has_what_an_address_needs(need: Need, may: tuple[Grant, ...]) -> None:
    demand(OPEN, need, "odds")
    for grant in (READER, WATCHER, BOSS):
        if grant in may:
            demand(grant, need, "odds")
        else:
            with pytest.raises(Forbidden, match=grant.user):
                demand(grant, need, "odds")
