"""``make audit`` (``python -m distributary.setup.vulnerabilities``): write the SBOM, look up advisories."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from distributary.errors import AdvisoriesUnavailable, ConfigError, DistributaryError, SetupError
from distributary.setup import osv, sbom
from distributary.setup.sbom import Component

NONE_FOUND, FOUND, USAGE, INCOMPLETE = 0, 1, 2, 3
URL = "DISTRIBUTARY_OSV_URL"
OUTPUT = Path("build/sbom.cdx.json")
IGNORE_FILE = "audit-ignore.toml"
"""Advisories that are known and accepted, each for a reason and for a time::

    [[ignore]]
    id = "GHSA-xxxx-yyyy-zzzz"
    reason = "only reached with a feature that is not used here"
    until = 2027-01-31
"""
_IGNORE_KEYS = ("id", "reason", "until")


@dataclass(frozen=True, slots=True)
class Ignore:
    """One entry; it applies up to and including the day ``until``."""

    id: str
    reason: str
    until: date

    def expired(self, today: date) -> bool:
        """Whether it no longer applies."""
        return today > self.until


def read_ignores(file: Path) -> list[Ignore]:
    """Read the list; raises ConfigError when it is not valid. Without a file the list is empty."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from None
    entries = data.get("ignore", [])
    if set(data) - {"ignore"} or not isinstance(entries, list):
        raise ConfigError(f"{file}: expected [[ignore]] tables and nothing else")
    found = [_entry(entry, f"{file}: entry {number}") for number, entry in enumerate(entries, 1)]
    ids = [one.id for one in found]
    if twice := sorted({id for id in ids if ids.count(id) > 1}):
        raise ConfigError(f"{file}: duplicate ids: {', '.join(twice)}")
    return found


def _entry(entry: Any, where: str) -> Ignore:
    if not isinstance(entry, dict) or set(entry) - set(_IGNORE_KEYS):
        raise ConfigError(f"{where}: expected a table with {', '.join(_IGNORE_KEYS)} and nothing else")
    for key in ("id", "reason"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise ConfigError(
                f"{where}: {key} is missing", hint="Every entry must name an advisory, and give a reason"
            )
    until = entry.get("until")
    if not isinstance(until, date) or isinstance(until, datetime):
        raise ConfigError(f"{where}: until is missing, or not a date", hint="Write it as until = 2027-01-31")
    return Ignore(entry["id"].strip(), entry["reason"].strip(), until)


@dataclass(frozen=True, slots=True)
class Report:
    """What an audit found: ``found`` by component, without the ids that are ignored.

    ``unknown`` are components that could not be looked up, since their coordinates are unknown.
    """

    found: Mapping[Component, Sequence[str]]
    ignored: Sequence[Ignore] = ()
    expired: Sequence[Ignore] = ()
    unused: Sequence[Ignore] = ()
    unknown: Sequence[Component] = field(default_factory=list)
    looked_up: int = 0

    @property
    def status(self) -> int:
        """The exit status. What was not looked up is not clean."""
        return FOUND if self.found else INCOMPLETE if self.unknown or not self.looked_up else NONE_FOUND


def audit(parts: Sequence[Component], service: osv.Osv, listed: Sequence[Ignore], today: date) -> Report:
    """Look up the advisories of all components; raises AdvisoriesUnavailable."""
    known = {one.purl: one for one in parts if one.purl}
    advisories = service.advisories(list(known))
    expired = [one for one in listed if one.expired(today)]
    active = {one.id for one in listed} - {one.id for one in expired}
    every = set(chain.from_iterable(advisories.values()))
    left = {purl: [id for id in ids if id not in active] for purl, ids in advisories.items()}
    return Report(
        found={known[purl]: ids for purl, ids in left.items() if ids},
        ignored=[one for one in listed if one.id in active & every],
        expired=[one for one in expired if one.id in every],
        unused=[one for one in listed if one.id not in every],
        unknown=[one for one in parts if not one.purl],
        looked_up=len(known),
    )


def table(report: Report) -> str:
    """Format a report for people."""
    rows = [(one.title, one.version, ", ".join(ids)) for one, ids in report.found.items()]
    lines = []
    if rows:
        heads = ("COMPONENT", "VERSION", "ADVISORIES")
        wide = [max(len(row[at]) for row in (heads, *rows)) for at in range(2)]
        lines = [f"{a:<{wide[0]}}  {b:<{wide[1]}}  {c}" for a, b, c in (heads, *rows)]
        lines.append("")
    for one in report.ignored:
        lines.append(f"ignored until {one.until}: {one.id} ({one.reason})")
    for one in report.expired:
        lines.append(f"no longer ignored, expired on {one.until}: {one.id} ({one.reason})")
    for one in report.unused:
        lines.append(f"no longer needed in the ignore list: {one.id}")
    for part in report.unknown:
        lines.append(f"not looked up, unknown Maven group: {part.name} {part.version}")
    if report.unknown:
        lines.append(f"Add their groups to {sbom.GROUPS}")
    count = sum(map(len, report.found.values()))
    summary = f"{count} advisories of {len(report.found)} components" if count else "no advisory"
    lines.append(f"{summary}; {report.looked_up} components were looked up")
    return "\n".join(lines)


def as_json(report: Report, service: str) -> dict[str, Any]:
    """A report for programs."""

    def entry(one: Ignore) -> dict[str, str]:
        return {"id": one.id, "reason": one.reason, "until": one.until.isoformat()}

    return {
        "osv": service,
        "looked_up": report.looked_up,
        "found": [
            {"component": one.title, "version": one.version, "purl": one.purl, "advisories": list(ids)}
            | {"locations": sorted(one.locations)}
            for one, ids in report.found.items()
        ],
        "ignored": [entry(one) for one in report.ignored],
        "expired": [entry(one) for one in report.expired],
        "unused": [entry(one) for one in report.unused],
        "unknown": [{"component": one.title, "version": one.version} for one in report.unknown],
    }


def main(arguments: Sequence[str] | None = None, env: Mapping[str, str] = os.environ) -> int:
    """The command; exit status 0 none found, 1 found, 2 invalid arguments, 3 not all looked up."""
    options = _parser(env).parse_args(arguments)
    try:
        listed = read_ignores(options.ignore)
        parts = sbom.merged(
            chain(sbom.of_requirements(options.requirements), sbom.of_jars(), sbom.of_wheels())
        )
        _write(sbom.to_json(parts), options.output)
        if options.sbom_only:
            return NONE_FOUND
        service = osv.Osv(options.osv)
        report = audit(parts, service, listed, datetime.now(UTC).date())
    except (AdvisoriesUnavailable, ConfigError, SetupError) as error:
        return _failed(error, options.json)
    except KeyboardInterrupt:
        return 130
    # If the SBOM is on standard output, the report is not.
    out = sys.stderr if str(options.output) == "-" else sys.stdout
    text = json.dumps(as_json(report, options.osv), indent=2) if options.json else table(report)
    print(text, file=out)
    return report.status


def _parser(env: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m distributary.setup.vulnerabilities",
        description="Write a CycloneDX SBOM of all components of Distributary, and look up their advisories "
        "in an OSV service.",
        epilog="Exit status: 0 no advisory, 1 some, 2 invalid ignore list or options, 3 the "
        f"advisories could not be looked up. Environment: {URL} (the service).",
    )
    parser.add_argument(
        "--requirements", type=Path, default=Path("requirements.lock"), help="the Python lock"
    )
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help=f"where the SBOM goes, - for standard output ({OUTPUT})"
    )
    parser.add_argument(
        "--osv", default=env.get(URL) or osv.URL, metavar="URL", help=f"the service ({osv.URL})"
    )
    parser.add_argument(
        "--ignore", type=Path, default=Path(IGNORE_FILE), help=f"accepted advisories ({IGNORE_FILE})"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--sbom-only", action="store_true", help="write the SBOM and look up nothing")
    return parser


def _write(text: str, output: Path) -> None:
    if str(output) == "-":
        sys.stdout.write(text)
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SetupError(
            f"cannot write the SBOM {output}: {error.strerror}", hint="Choose another file with --output"
        ) from None


def _failed(error: DistributaryError, json_too: bool) -> int:
    if json_too:
        about = {"code": error.code, "message": error.message, "hint": error.hint, "retry": error.retry}
        print(json.dumps({"error": about}))
    print(f"error: {error}", file=sys.stderr)
    return USAGE if isinstance(error, ConfigError) else INCOMPLETE


if __name__ == "__main__":
    sys.exit(main())
