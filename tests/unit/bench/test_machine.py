"""What is told of the machine."""

from __future__ import annotations

from pathlib import Path

from bench.machine import Stolen


def test_the_share_that_the_host_took(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 1\n")
    stolen = Stolen(stat)
    stat.write_text("cpu  150 0 130 810 0 0 0 110 0 0\ncpu0 1 1\n")
    assert stolen.share() == 0.05


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert Stolen(tmp_path / "none").share() is None
