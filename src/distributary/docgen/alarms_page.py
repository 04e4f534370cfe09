"""The page of all alarms, from their table."""

from __future__ import annotations

from distributary.control import alarms

_INTRO = f"""\
# Alarms

<!-- Made by `python -m distributary.docgen` from src/distributary/control/alarms.py. Do not edit. -->

What needs somebody's attention has a name, a `subject` (the part, view or address it is about), a `since`, a
`text` with the figure, and a `hint` that says what to do. It is the same list in `distributary status` (with
`--check` the exit status is 1 when there is any), in `GET /v1/status`, in `GET /readyz` (503 when one is
an error) and, as `distributary_alarm`, in `GET /metrics`.

The control API looks at Kafka, the store, the supervisor and the heartbeats once a second. A lag is Kafka's
end offsets less the store's marks, never what a process said of itself. An alarm is gone with the first look
that does not raise it; that something was restarted is told for {alarms.HOLD:.0f} s.

| name | severity | what it means |
|---|---|---|
"""

_LIMITS = f"""
- A process is silent after {alarms.SILENT:.0f} s without a heartbeat.
- A view stalls when records wait and none is folded for {alarms.STALLED:.0f} s; it is behind when the oldest
  of them waits for {alarms.BEHIND:.0f} s.
- A log is short when it reaches back less than {alarms.HORIZON:.0f} s at the present rate.
- A store is nearly full at {alarms.FULL:.0%} of `maxmemory`.
- A disk is nearly full with less than {alarms.ROOM >> 20} MiB left.
"""


def page() -> str:
    """The whole page."""
    rows = (f"| `{name}` | {kind.severity} | {kind.about} |\n" for name, kind in alarms.KINDS.items())
    return _INTRO + "".join(rows) + _LIMITS
