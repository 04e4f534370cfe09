from __future__ import annotations

import pytest

from distributary.config import Auth, Config
from distributary.config.functions import functions_of, unlisted_functions
from distributary.model.view import View

PLAIN = View("plain", "odds", key="id")
FOLDED = View("folded", "odds", key="id", reduce="folds:act", events="ticks", reduce_events="folds:happen")


def test_rules_are_no_functions() -> None:
    assert list(functions_of(PLAIN)) == []
    assert list(functions_of(FOLDED)) == ["folds:act", "folds:happen"]


@pytest.mark.parametrize(
    ("config", "unlisted"),
    [
        (Config(), ["folds:act", "folds:happen"]),
        (Config(views=(FOLDED,)), []),
        (Config(views=(PLAIN,)), ["folds:act", "folds:happen"]),
        (Config(auth=Auth(functions=("folds:act",))), ["folds:happen"]),
        (Config(auth=Auth(functions=("folds:*",))), []),
        (Config(auth=Auth(functions=("os:*",))), ["folds:act", "folds:happen"]),
    ],
)
def test_functions_of_the_file_and_of_the_list_are_allowed(config: Config, unlisted: list[str]) -> None:
    assert unlisted_functions(config, FOLDED) == unlisted
    assert unlisted_functions(config, PLAIN) == []
