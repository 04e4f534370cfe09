"""Brings the views of the configuration file into the store."""

from __future__ import annotations

from collections.abc import Callable

from distributary.config import Config
from distributary.model.build import Definition
from distributary.store.contract import WriterStore


def apply_config(
    config: Config, store: WriterStore, defined: Callable[[str], None] = lambda name: None
) -> list[str]:
    """Define every view of the file that is new or changed; say what was done, a line each.

    Views that the store has and the file does not are left as they are, and said. ``defined`` hears the name
    of each that was defined.
    """
    done: list[str] = []
    stored = store.views()
    for view in config.views:
        events = config.feed(view.events) if view.events else None
        definition = Definition(view, config.feed(view.feed), events)
        before = stored.get(view.name)
        if before is not None and before.definition == definition.text and not before.next:
            continue
        if before is not None and before.next == definition.build:
            continue
        store.define(view.name, definition.build, definition.text)
        defined(view.name)
        if before is None:
            done.append(f"view {view.name}: new")
        elif before.live == definition.build:
            done.append(f"view {view.name}: settings changed")
        else:
            done.append(f"view {view.name}: changed, built beside the one that is live")
    named = {view.name for view in config.views}
    done += [f"view {name}: not in the file, left as it is" for name in stored if name not in named]
    return done
