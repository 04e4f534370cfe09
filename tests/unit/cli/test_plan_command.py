from __future__ import annotations

import json

import pytest

from distributary.cli.main import main

WORDS = ["plan", "--rate", "50000", "--size", "500", "--retention", "7d"]


def test_plan_prints_its_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--consumer-rate", "4000", "--readers", "2"]) == 0
    out = capsys.readouterr().out
    assert "50,000 records/s x 500 B" in out
    assert "19 partitions on 59 brokers" in out
    assert main([*WORDS, "--broker-disk", "10TiB", "--json"]) == 0
    estimate = json.loads(capsys.readouterr().out)
    assert (estimate["partitions"], estimate["brokers"]) == (4, 6)


@pytest.mark.parametrize(
    "more", [["--size", "x"], ["--retention", "long"], ["--rate", "0"], ["--broker-disk", "1xb"]]
)
def test_value_out_of_range_is_refused(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, *more]) == 2
    assert "Traceback" not in capsys.readouterr().err
