from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.auth import OPEN, STACK, Grant, Operator
from distributary.errors import Forbidden
from distributary.model.field_mask import parse_field_mask


def test_views_by_name_and_pattern() -> None:
    grant = Grant("ann", views=("odds", "bets-*"))
    for name in ("odds", "bets-", "bets-live"):
        grant.require_view(name)
    for name in ("", "odds2", "bets", "Odds", "xodds", "*", "odds\n"):
        with pytest.raises(Forbidden, match="ann"):
            grant.require_view(name)


def test_feeds_are_published_to_by_name() -> None:
    Grant("ann", publish=("actions",)).require_publish("actions")
    for grant in (Grant("ann"), Grant("ann", publish=("a",))):
        with pytest.raises(Forbidden):
            grant.require_publish("actions")


@pytest.mark.parametrize(
    ("patterns", "topic", "good"),
    [
        ((), "sportsbook.odds", False),
        (("sportsbook.odds",), "sportsbook.odds", True),
        (("odds",), "sportsbook.odds", False),
        (("sportsbook.*",), "sportsbook.odds", True),
        (("*",), "anything", True),
        (("*",), "_schemas", False),
        (("_schemas",), "_schemas", True),
        (("*", "_*"), "_schemas", False),
    ],
)
def test_topics_are_produced_to_and_consumed_by_name(
    patterns: tuple[str, ...], topic: str, good: bool
) -> None:
    for grant, check in (
        (Grant("ann", produce=patterns), Grant.require_produce),
        (Grant("ann", consume=patterns), Grant.require_consume),
    ):
        assert grant.may_describe(topic) == good
        if good:
            check(grant, topic)
        else:
            with pytest.raises(Forbidden, match="ann"):
                check(grant, topic)
    STACK.require_produce(topic)
    STACK.require_consume(topic)


def test_produce_does_not_imply_consume() -> None:
    with pytest.raises(Forbidden):
        Grant("ann", produce=("t",)).require_consume("t")
    with pytest.raises(Forbidden):
        Grant("ann", consume=("t",)).require_produce("t")


def test_groups_are_those_named_after_the_user_unless_named() -> None:
    for name in ("ann", "ann.a", "ann.b.c"):
        Grant("ann").require_group(name)
    for name in ("", "an", "anna", "bob", "ann-a", "x.ann"):
        with pytest.raises(Forbidden, match="join the group"):
            Grant("ann").require_group(name)
    Grant("ann", groups=("reports*",)).require_group("reports-2")
    with pytest.raises(Forbidden):
        Grant("ann", groups=("reports*",)).require_group("ann")


@given(st.text(min_size=1, max_size=8), st.text(max_size=8))
def test_user_name_is_not_a_pattern_of_groups(user: str, name: str) -> None:
    """A user who may choose a name such as * must not join the groups of others by it."""
    try:
        Grant(user).require_group(name)
    except Forbidden:
        assert name != user
    else:
        assert name == user or name.startswith(f"{user}.")


def test_subjects_of_own_topics_are_read() -> None:
    grant = Grant("ann", consume=("odds",), subjects=("shared-*",), register=("bets-value",))
    for name in ("odds-key", "odds-value", "shared-x", "bets-value"):
        assert grant.may_read_subject(name)
    for name in ("odds", "odds-x", "odds-a-value", "bets-key", "-value"):
        assert not grant.may_read_subject(name)
    grant.require_register("bets-value")
    for name in ("odds-value", "shared-x"):
        with pytest.raises(Forbidden):
            grant.require_register(name)
    assert Grant("eve", operator=Operator.READ).may_read_subject("anything")


def test_views_are_defined_by_name_or_by_admins() -> None:
    Grant("ann", define=("ann-*",)).require_define("ann-odds")
    STACK.require_define("anything")
    for grant in (OPEN, Grant("ann", define=("ann-*",)), Grant("eve", operator=Operator.OPERATE)):
        with pytest.raises(Forbidden):
            grant.require_define("odds")


def test_operator_has_the_rights_of_the_levels_below() -> None:
    for level in Operator:
        grant = Grant("eve", operator=level)
        for wanted in Operator:
            if wanted <= level:
                grant.require_operator(wanted)
            else:
                with pytest.raises(Forbidden, match=wanted.name.lower()):
                    grant.require_operator(wanted)


def test_error_without_a_token_mentions_the_stacks_own() -> None:
    with pytest.raises(Forbidden) as caught:
        OPEN.require_operator(Operator.ADMIN)
    assert "token` of its data folder" in caught.value.hint


def test_visible_fields_are_allowed_by_every_matching_pattern() -> None:
    grant = Grant("ann", columns=(("*", parse_field_mask("a,b.c")), ("odds", parse_field_mask("b,d"))))
    assert grant.visible_fields("odds") == parse_field_mask("b.c")
    assert grant.visible_fields("bets") == parse_field_mask("a,b.c")
    assert Grant("ann").visible_fields("odds") is None


@pytest.mark.parametrize(
    ("issued", "before", "ended"),
    [(None, None, False), (None, 1, True), (1000, None, False), (1000, 1000, False), (1000, 1001, True)],
)
def test_revoking_ends_what_was_issued_before(issued: int | None, before: int | None, ended: bool) -> None:
    assert Grant("ann", issued_at=issued).is_revoked(before) == ended
    assert not Grant("key:a", issued_at=issued, revocable=False).is_revoked(before)


def test_grant_expires_after_its_time_and_leeway() -> None:
    assert not Grant("ann").is_expired(1 << 60)
    grant = Grant("ann", expires_at=1000)
    assert [grant.is_expired(now) for now in (999, 1000)] == [False, True]
    assert [grant.is_expired(now, leeway=2) for now in (2999, 3000)] == [False, True]
