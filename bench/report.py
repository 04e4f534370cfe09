"""What is printed and kept of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.figures import TARGETS

RESULTS = Path(__file__).resolve().parent / "results"
LATEST = RESULTS / "latest.json"
QUICK = RESULTS / "quick.json"
"""Quick runs have a file of their own, so that they do not pass for measurements."""

SAME = ("cpu", "cores", "memory_gib")
"""What makes two machines the same to us."""

TITLES = {
    "latency": "produce to WebSocket",
    "live": "live rate",
    "catchup": "catching up",
    "fanout": "fan-out",
    "match": "live queries",
    "rows": "first rows",
    "pace": "beside slow readers",
    "cycles": "subscribe and end",
    "hostile": "beside a hostile user",
}


def save(results: dict[str, Any], path: Path) -> None:
    """Keep each scenario's last measurement; what was not measured now, or failed, stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):
        before = {}
    path.write_text(json.dumps(joined(before, results), indent=2) + "\n")


def joined(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Put what was measured now in the place of what was measured before, scenario by scenario.

    Results of another machine are not kept beside these.
    """
    if any(before.get("machine", {}).get(name) != now["machine"].get(name) for name in SAME):
        before = {}
    kept = {one["name"]: (one, before) for one in before.get("scenarios", ())}
    kept |= {one["name"]: (one, now) for one in now["scenarios"] if not one["error"]}
    order = [name for name in TITLES if name in kept]
    found: dict[str, Any] = {"machine": now["machine"], "quick": now["quick"], "scenarios": []}
    for name in order:
        one, source = kept[name]
        found["scenarios"].append(one)
        found |= {figure: source[figure] for figure in one["figures"]}
    return found


def show(results: dict[str, Any], console: Console) -> None:
    """Print the machine, then a table of all figures with their targets."""
    console.print(machine_line(results["machine"]), highlight=False, soft_wrap=True)
    if results["quick"]:
        console.print(
            "A quick run: it shows that the benchmark works; its figures mean nothing.", style="yellow"
        )
    table = Table(title="distributary benchmark")
    table.add_column("scenario")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    for scenario in results["scenarios"]:
        for name in scenario["figures"]:
            value = results[name]
            if not isinstance(value, list):
                style, target = _judged(name, value)
                table.add_row(TITLES[scenario["name"]], name, shown(value), target, style=style)
        if scenario["error"]:
            table.add_row(
                TITLES[scenario["name"]],
                f"not measured: {scenario['error'].splitlines()[0]}",
                "",
                "",
                style="red",
            )
        table.add_section()
    console.print(table)


def machine_line(machine: dict[str, Any]) -> str:
    """Say in one line on what it ran."""
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("python", "pyspark", "java", "go") if machine[name]
    )
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB, {machine['system']}; "
        f"{versions}, {machine['store']}; load before: {machine['load_average_before']:g}"
    )


def shown(value: object) -> str:
    """A figure for people."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.2f}"


def _judged(name: str, value: object) -> tuple[str, str]:
    target = TARGETS.get(name)
    if target is None or not isinstance(value, (int, float)):
        return "", ""
    return ("green" if target.met(value) else "red"), str(target)
