from __future__ import annotations

import pytest

from distributary.errors import UsageError
from distributary.model.endpoints import of_environment


def test_the_token_goes_first() -> None:
    assert of_environment({}) == ("", "")
    assert of_environment({"DISTRIBUTARY_API_KEY": "k"}) == ("", "k")
    assert of_environment({"DISTRIBUTARY_TOKEN": " t\n", "DISTRIBUTARY_API_KEY": "k"}) == ("t", "")


@pytest.mark.parametrize("name", ["DISTRIBUTARY_TOKEN", "DISTRIBUTARY_API_KEY"])
@pytest.mark.parametrize("value", ["hun\nter2", "hun ter2", "huntér2", "hun\x00ter2"])
def test_what_is_no_word_is_told_without_repeating_it(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        of_environment({name: value})
    assert value not in str(caught.value)
