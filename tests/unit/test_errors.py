import pickle
import re

import pytest

from distributary.errors import DistributaryError, JarMismatch


def tree(root: type[DistributaryError]) -> list[type[DistributaryError]]:
    return [root] + [one for child in root.__subclasses__() for one in tree(child)]


@pytest.mark.parametrize("error", tree(DistributaryError))
def test_error_has_a_code_and_survives_pickling(error: type[DistributaryError]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", error.code)
    copy = pickle.loads(pickle.dumps(error("what", hint="do")))
    assert type(copy) is error
    assert str(copy) == "what. do"


def test_error_codes_are_unique() -> None:
    codes = [error.code for error in tree(DistributaryError)]
    assert len(codes) == len(set(codes))


def test_error_without_hint_prints_its_message() -> None:
    assert str(JarMismatch("x.jar differs")) == "x.jar differs"
