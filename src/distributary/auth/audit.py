"""The audit log: who tried to change or to read what, from where, and with which result. JSON lines.

It has definitions, revocations, administrative calls, and every refusal. A line never contains a secret: no
token, no key, no body of a request. Several processes append to one file, each line in one write.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from distributary.config import Config
from distributary.config.secrets import MASK

log = logging.getLogger(__name__)

FILE = "audit.log"
MAX_BYTES = 64 << 20
"""Maximum size of the file; then it is renamed to ``audit.log.1``, in place of an older one."""
MAX_TEXT = 200
"""Characters of a name that was chosen by a client."""
BURST, WINDOW = 20, 1.0
"""So many refusals of one user at one address are written in a window (s); the others are counted."""
_MAX_SOURCES = 10_000

_CREDENTIAL = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*|\b(?:dk|ds)_[\w-]{20,}")
"""A token or key that a client sent in place of a name."""

Result = Literal["ok", "refused", "failed"]


class AuditLog:
    """The log of one component. Writing never fails a request: its errors are in the component's log."""

    def __init__(
        self,
        component: str,
        path: Path | None,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``path`` None writes to standard error."""
        self._component = component
        self._path = path
        self._wall = wall
        self._clock = clock
        self._refusals: dict[tuple[str, str], tuple[float, int]] = {}

    @classmethod
    def of(cls, component: str, config: Config) -> AuditLog:
        """Create the one of the configuration."""
        name = config.auth.audit_log
        if name == "-":
            return cls(component, None)
        folder = config.path.parent if config.path else Path()
        return cls(component, folder / Path(name).expanduser() if name else config.data_dir / FILE)

    def write(
        self, action: str, result: Result, *, user: str, address: str, target: str = "", reason: str = ""
    ) -> None:
        """Write one line; of many refusals only `BURST` per `WINDOW` are written, and the others counted."""
        suppressed = 0
        if result == "refused":
            allowed, suppressed = self._rate_limit(user, address)
            if not allowed:
                return
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="milliseconds"),
            "component": self._component,
            "user": user[:MAX_TEXT],
            "address": address,
            "action": action[:MAX_TEXT],
            "target": _CREDENTIAL.sub(MASK, target)[:MAX_TEXT],
            "result": result,
        }
        line |= {"reason": reason[:MAX_TEXT]} if reason else {}
        line |= {"suppressed": suppressed} if suppressed else {}
        self._append(json.dumps(line, ensure_ascii=True).encode() + b"\n")

    def _rate_limit(self, user: str, address: str) -> tuple[bool, int]:
        """Return whether a refusal is to be written, and how many were suppressed since the last one."""
        now, source = self._clock(), (user, address)
        began, count = self._refusals.get(source, (now, 0))
        suppressed = 0
        if now - began >= WINDOW:
            began, suppressed, count = now, max(0, count - BURST), 0
        if len(self._refusals) >= _MAX_SOURCES:
            self._refusals.clear()
        self._refusals[source] = (began, count + 1)
        return count < BURST, suppressed

    def _append(self, line: bytes) -> None:
        if self._path is None:
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            return
        try:
            # Opened for each line: another process may have rotated the file. There are few lines.
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, line)
                if os.fstat(file).st_size > MAX_BYTES:
                    self._rotate(file)
            finally:
                os.close(file)
        except OSError as error:
            log.error("cannot write the audit log %s: %s", self._path, error.strerror or error)

    def _rotate(self, file: int) -> None:
        """Start a new file; only one of several processes that find it full does so."""
        assert self._path is not None
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_ino == self._path.stat().st_ino:
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
