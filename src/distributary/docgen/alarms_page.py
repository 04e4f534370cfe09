"""The page of all alarms, from their table."""

from __future__ import annotations

from distributary.control import alarms

_INTRO = f"""\
# Alarms

<!-- Made by `python -m distributary.docgen` from src/distributary/control/alarms.py. Do not edit. -->

An alarm has a name, a `subject` (the component, view or address that it is about), a `since`, a `text` with
the figure, and a `hint` that says what to do. The same list is in `distributary status` (with `--check` the
exit status is 1 if there are any), in `GET /v1/status`, in `GET /readyz` (503 if one of them is an error)
and, as `distributary_alarm`, in `GET /metrics`.

The control API checks Kafka, the store, the supervisor and the heartbeats once a second. Lag is the
difference between Kafka's end offsets and the store's marks, not what a process reports. An alarm ends with
the first check that does not raise it; a restart is reported for {alarms.RESTART_SECONDS:.0f} s.

| name | severity | what it means |
|---|---|---|
"""

_LIMITS = f"""
- A process is silent after {alarms.SILENT:.0f} s without a heartbeat.
- A view stalls when records are waiting and none is folded for {alarms.STALLED:.0f} s; it is behind when the
  oldest of them has waited for {alarms.BEHIND:.0f} s.
- A log is short when it covers less than {alarms.HORIZON:.0f} s at the current rate.
- A store is nearly full at {alarms.NEARLY_FULL:.0%} of `maxmemory`.
- A disk is nearly full with less than {alarms.MIN_FREE_BYTES >> 20} MiB left.
"""


def page() -> str:
    """The whole page."""
    rows = (f"| `{name}` | {kind.severity} | {kind.about} |\n" for name, kind in alarms.KINDS.items())
    return _INTRO + "".join(rows) + _LIMITS
