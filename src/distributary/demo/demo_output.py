"""What the demo says: lines for people, or one JSON object a line for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console

from distributary.demo.board import Figures
from distributary.stack.component import Event, EventKind


class Teller:
    """Prints each thing once. ``began`` is when the command was given, by the monotonic clock."""

    def __init__(self, console: Console, began: float, *, as_json: bool = False) -> None:
        self.console = console
        self._began = began
        self._json = as_json
        self._seen = False

    def stack(self, event: Event) -> None:
        """Tell what happens to the stack's parts."""
        if self._json:
            if event.kind in (EventKind.READY, EventKind.DIED, EventKind.FAILED, EventKind.STOPPED):
                self._object(event.kind, component=event.component, message=event.message)
            return
        words = {
            EventKind.NOTE: event.message,
            EventKind.WAITING: f"{event.component:<11} waiting: {event.message}",
            EventKind.READY: f"{event.component:<11} ready after {self._elapsed():.1f} s",
            EventKind.DIED: f"{event.component:<11} died: {event.message}",
            EventKind.FAILED: f"{event.component:<11} failed: {event.message}",
        }
        if event.kind in words:
            self._line(words[event.kind])
            for line in event.log_tail if event.kind in (EventKind.DIED, EventKind.FAILED) else ():
                self._line(f"  {line}")

    def ready(self, addresses: Mapping[str, str]) -> None:
        """Tell where the page is."""
        page = f"{addresses['http']}/"
        if self._json:
            self._object("page", page=page, addresses=dict(addresses))
        else:
            self._line(f"\nOpen {page}\n")

    def first_change(self) -> None:
        """Tell, once, that a change came all the way through."""
        if self._seen:
            return
        self._seen = True
        if self._json:
            self._object("first-change")
        else:
            self._line(f"first change on screen after {self._elapsed():.1f} s")

    def figures(self, figures: Figures) -> None:
        """Tell how it goes."""
        self._object("figures", **asdict(figures))

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _object(self, event: str, **more: Any) -> None:
        body = {"event": event, "seconds": round(self._elapsed(), 3), **more}
        print(json.dumps(body, ensure_ascii=False), file=self.console.file, flush=True)
