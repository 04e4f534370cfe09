from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from distributary.errors import ConfigError
from distributary.setup.ignores import Ignore, read

GOOD = '[[ignore]]\nid = "GHSA-1"\nreason = "not reached"\nuntil = 2027-01-31\n'


def test_entries_have_id_reason_and_end(tmp_path: Path) -> None:
    file = tmp_path / "audit-ignore.toml"
    assert read(file) == []
    file.write_text(GOOD)
    (one,) = read(file)
    assert one == Ignore("GHSA-1", "not reached", date(2027, 1, 31))
    assert not one.expired(date(2027, 1, 31))
    assert one.expired(date(2027, 2, 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace('reason = "not reached"\n', ""), "entry 1: reason is missing"),
        (GOOD.replace("not reached", "  "), "entry 1: reason is missing"),
        (GOOD.replace('id = "GHSA-1"\n', ""), "entry 1: id is missing"),
        (GOOD.replace("until = 2027-01-31\n", ""), "entry 1: until is missing"),
        (GOOD.replace("2027-01-31", '"2027-01-31"'), "entry 1: until is missing, or no date"),
        (GOOD.replace("2027-01-31", "2027-01-31T00:00:00Z"), "entry 1: until is missing, or no date"),
        (GOOD + 'what = "x"\n', "entry 1: expected a table with id, reason, until"),
        (GOOD + GOOD, "given twice: GHSA-1"),
        (GOOD + "[other]\n", "nothing else"),
        ("ignore = 1\n", "expected \\[\\[ignore\\]\\]"),
        ("ignore = [1]\n", "entry 1"),
        ("not toml [", "not valid TOML"),
    ],
)
def test_entry_that_is_not_complete_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "audit-ignore.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read(file)
