from __future__ import annotations

import pytest

from distributary.auth import OPEN, STACK, Grant, Operator
from distributary.errors import Forbidden
from distributary.httpd.authorization import Need, demand

READER = Grant("ann", views=("odds",))
WATCHER = Grant("eve", operator=Operator.READ)
OPERATOR = Grant("olga", operator=Operator.OPERATE)
AUTHOR = Grant("bob", define=("od*",))
BOSS = Grant("boss", operator=Operator.ADMIN)
EVERYBODY = (READER, WATCHER, OPERATOR, AUTHOR, BOSS)


@pytest.mark.parametrize(
    ("need", "may"),
    [
        (Need.OPEN, EVERYBODY),
        (Need.USER, EVERYBODY),
        (Need.VIEW, (READER,)),
        (Need.ROWS, (READER,)),
        (Need.DEFINE, (AUTHOR, BOSS)),
        (Need.READ, (WATCHER, OPERATOR, BOSS)),
        (Need.OPERATE, (OPERATOR, BOSS)),
        (Need.ADMIN, (BOSS,)),
    ],
)
def test_who_has_what_an_address_needs(need: Need, may: tuple[Grant, ...]) -> None:
    demand(STACK, need, "odds")
    for grant in EVERYBODY:
        if grant in may:
            demand(grant, need, "odds")
        else:
            with pytest.raises(Forbidden, match=grant.user):
                demand(grant, need, "odds")


@pytest.mark.parametrize("need", Need)
def test_caller_without_a_token_uses_an_open_stack_and_does_not_change_it(need: Need) -> None:
    if need in (Need.DEFINE, Need.OPERATE, Need.ADMIN):
        with pytest.raises(Forbidden):
            demand(OPEN, need, "odds")
    else:
        demand(OPEN, need, "odds")
