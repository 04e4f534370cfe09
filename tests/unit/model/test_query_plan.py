"""How queries are found: by equalities, then a range; an ``or`` by its parts; the rest one by one."""

from __future__ import annotations

import pytest

from distributary.model.order import order_of
from distributary.model.query import Query
from distributary.model.query_plan import MAX_BRANCHES, is_expensive, plans


@pytest.mark.parametrize(
    ("where", "steps", "exact"),
    [
        ("", [[]], True),
        ("a = 1", [["a"]], True),
        ("b > 1 and a = 1", [["a", "b"]], True),
        ("a between 1 and 2", [["a"]], True),
        ("a > 1 and b between 1 and 2", [["b"]], False),
        ("a in (1, 2) and b = 1 and c > 1", [["b", "a", "c"]], True),
        ("a is null and b > 1", [["a", "b"]], True),
        ("a = 1 and b like 'x%'", [["a"]], False),
        ("a like 'x%'", [[]], False),
        ("a != 1", [[]], False),
        ("a = 1 or b > 1", [["a"], ["b"]], True),
        ("a = 1 or b like 'x%'", [[]], False),
        ("(a = 1 or b > 1) and c like 'x%'", [["a"], ["b"]], False),
        ("(a = 1 or b > 1) and c = 1", [["c"]], False),
        ("a = 1 and b = 1 and c = 1 and d = 1 and e = 1", [["a", "b", "c"]], False),
        ("a = 1 and a = 2", [], True),
        (" or ".join(f"a{n} = 1" for n in range(MAX_BRANCHES + 1)), [[]], False),
    ],
)
def test_plans_use_equalities_before_ranges(where: str, steps: list[list[str]], exact: bool) -> None:
    made = plans(7, Query.parse("v", where))
    assert [[".".join(step.path) for step in plan.steps] for plan in made] == steps
    assert all(plan.exact is exact and plan.number == 7 for plan in made)


def test_plan_of_a_query_by_key_tests_its_filter() -> None:
    (plan,) = plans(1, Query.of_keys("v", ["k", "l"]))
    assert plan.exact
    (plan,) = plans(1, Query.of_keys("v", ["k"]).narrowed("a = 1"))
    assert (len(plan.steps), plan.exact, plan.names()) == (1, False, {"a"})


def test_plan_names_top_level_fields() -> None:
    names = set[str]().union(
        *(plan.names() for plan in plans(1, Query.parse("v", "a.x = 1 or b > 1 and c is null")))
    )
    assert names == {"a", "b", "c"}


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
