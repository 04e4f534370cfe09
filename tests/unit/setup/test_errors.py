import pickle
import re

import pytest

from distributary import errors
from distributary.errors import DistributaryError, JarMismatch


def tree(root: type[DistributaryError]) -> list[type[DistributaryError]]:
    return [root] + [one for child in root.__subclasses__() for one in tree(child)]


@pytest.mark.parametrize("error", tree(DistributaryError))
def test_every_error_is_coded_and_drawn_and_survives_pickling(error: type[DistributaryError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", error.code)
    if error.__module__ == errors.__name__:
        assert errors.__doc__ is not None
        assert error.__name__ in errors.__doc__
    copy = pickle.loads(pickle.dumps(error("what", hint="do")))
    assert type(copy) is error
    assert str(copy) == "what. do"


def test_codes_are_not_shared() -> None:
    codes = [error.code for error in tree(DistributaryError)]
    assert len(codes) == len(set(codes))


def test_an_error_without_hint_is_its_message() -> None:
    assert str(JarMismatch("x.jar differs")) == "x.jar differs"
