"""Finding the function that was named."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.errors import BadFunction
from distributary.workers.function_loader import load_function

MODULE = """
import json
LIMIT = 3
def charge(record): return record
def charge_all(): pass
def with_default(record, extra=1): pass
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "billing_for_test.py").write_text(MODULE)
    (tmp_path / "broken_for_test.py").write_text("1 / 0")
    (tmp_path / "lacking_for_test.py").write_text("import no_such_package_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("name", ["charge", "with_default"])
def test_it_is_found(name: str) -> None:
    assert load_function(f"billing_for_test:{name}").__name__ == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("billing_for_test", "is not module:function"),
        (":charge", "is not module:function"),
        ("no_such_module:f", "there is no module 'no_such_module'"),
        ("billing_for_test.sub:f", "there is no module 'billing_for_test.sub'"),
        ("broken_for_test:f", "cannot be imported: ZeroDivisionError"),
        ("lacking_for_test:f", "needs 'no_such_package_at_all'"),
        ("billing_for_test:chargr", "has no 'chargr'.*Did you mean billing_for_test:charge?"),
        ("billing_for_test:LIMIT", "is a int, not a function"),
        ("billing_for_test:charge_all", "does not take one argument"),
    ],
)
def test_it_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadFunction) as found:
        load_function(text)
    import re

    assert re.search(said, f"{found.value.message} {found.value.hint}")
