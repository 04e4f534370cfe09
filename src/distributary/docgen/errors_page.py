"""The page of all errors, from their classes."""

from __future__ import annotations

from distributary.errors import DistributaryError
from distributary.httpd.error_responses import STATUSES

_INTRO = """\
# Errors

<!-- Made by `python -m distributary.docgen` from src/distributary/errors.py. Do not edit. -->

Every error has a message (what went wrong and where), a hint (what to do), a stable code, and a flag that
says whether the same call may succeed later (*retry*). The command line prints message and hint; with
`--json`, and in every response of the control API, the error is one object:

```json
{"error": {"code": "view-building", "message": "…", "hint": "try again when it is live", "retry": true}}
```

In Python, each error is a class of `distributary.errors`; catching a class also catches those indented below
it.

| code | class | what it means | retry | HTTP status |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page, parents before their children."""
    return _INTRO + "".join(_row(kind, depth) for kind, depth in tree())


def tree(base: type[DistributaryError] = DistributaryError, depth: int = 0) -> list[tuple[type, int]]:
    """Every error class of the package with its depth, parents first."""
    found: list[tuple[type, int]] = [(base, depth)]
    for kind in base.__subclasses__():
        if kind.__module__.startswith("distributary."):
            found += tree(kind, depth + 1)
    return found


def _row(kind: type[DistributaryError], depth: int) -> str:
    about = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    status = next((number for known, number in STATUSES if issubclass(kind, known)), None)
    name = f"{'· ' * depth}{kind.__name__}"
    retry = "yes" if kind.retry else "no"
    return f"| `{kind.code}` | {name} | {about} | {retry} | {status or ''} |\n"
