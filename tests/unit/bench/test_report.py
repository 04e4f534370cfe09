"""What is printed and kept."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from bench import report
from bench.figures import TARGETS
from bench.machine import cpu_model, describe
from rich.console import Console


def results(**figures: Any) -> dict[str, Any]:
    return {
        "machine": describe(),
        "quick": False,
        "scenarios": [
            {"name": "live", "error": "", "figures": list(figures)},
            {"name": "fanout", "error": "Go is not on PATH\nand more", "figures": []},
        ],
        **figures,
    }


def shown(found: dict[str, Any]) -> str:
    out = io.StringIO()
    report.show(found, Console(file=out, width=200))
    return out.getvalue()


def test_each_figure_stands_beside_its_target() -> None:
    text = shown(results(live_rec_s=12_345.6, live_queries=100))
    line = next(line for line in text.splitlines() if "live_rec_s" in line)
    assert "12,346" in line
    assert str(TARGETS["live_rec_s"]) in line
    assert ">=" not in next(line for line in text.splitlines() if "live_queries" in line)


def test_what_was_not_measured_is_said_in_a_line() -> None:
    text = shown(results())
    assert "not measured: Go is not on PATH" in text
    assert "and more" not in text


def test_the_machine_is_named() -> None:
    text = shown(results())
    machine = describe()
    assert machine["cpu"] in text
    assert f"{machine['cores']} cores" in text
    assert f"python {machine['python']}" in text


def test_a_quick_run_says_that_it_is_one() -> None:
    assert "quick" not in shown(results())
    assert "A quick run" in shown({**results(), "quick": True})


def test_results_are_kept_as_json_with_the_figures_on_top(tmp_path: Path) -> None:
    report.save(results(live_rec_s=1.5), tmp_path / "new" / "latest.json")
    assert json.loads((tmp_path / "new" / "latest.json").read_text())["live_rec_s"] == 1.5


def test_the_processor_is_found_or_its_kind(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Fast 9000\nprocessor\t: 1\nmodel name\t: Fast 9000\n")
    assert cpu_model(info) == "Fast 9000"
    assert cpu_model(tmp_path / "none")


def test_figures_for_people() -> None:
    assert [report.shown(v) for v in (3.14159, 12345.6, 7, "x", True)] == ["3.14", "12,346", "7", "x", "True"]
