from __future__ import annotations

import pytest

from distributary.config.sections import Limits
from distributary.model.order import order_of
from distributary.model.query import Query
from distributary.model.query_plan import is_expensive
from distributary.store.store_types import query_limits


@pytest.mark.parametrize(
    ("where", "expensive"),
    [
        (None, False),
        ("a = 1", False),
        ("a > 1 and name like '%x%'", False),
        ("a = 1 or b = 2", False),
        ("a in (1, 2, 3)", False),
        ("a is null", False),
        ("name like '%x%'", True),
        ("name like '%z1%' or name not like '%y1_q%'", True),
        ("a != 1", True),
        ("a is not null", True),
        ("a = 1 or name like '%x%'", True),
    ],
)
def test_query_without_an_index_is_expensive(where: str | None, expensive: bool) -> None:
    assert is_expensive(Query.parse("odds", where)) == expensive
    assert not is_expensive(Query.of_keys("odds", ["a"]))


def test_order_alone_is_not_expensive() -> None:
    assert not is_expensive(Query.parse("odds", None).ordered(order_of("price", 10)))


def test_query_limits_come_from_the_configuration() -> None:
    limits = Limits(queries_per_view=7, expensive_queries_per_view=3)
    assert query_limits(limits, Query.parse("odds", "a != 1")) == (7, 3, True)
    assert query_limits(limits, Query.parse("odds", "a = 1")) == (7, 3, False)
