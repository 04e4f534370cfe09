"""Defines the views of the configuration file in the store."""

from __future__ import annotations

from collections.abc import Callable

from distributary.config import Config
from distributary.model.build import Definition
from distributary.store.contract import WriterStore


def define_views(
    config: Config, store: WriterStore, defined: Callable[[str], None] = lambda name: None
) -> list[str]:
    """Define every view of the file that is new or changed; return a line about each.

    Views that are only in the store are left unchanged, and reported. ``defined`` is called with the name of
    each view that was defined.
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
            done.append(f"view {view.name}: changed, being built beside the live one")
    in_file = {view.name for view in config.views}
    done += [f"view {name}: not in the file, left unchanged" for name in stored if name not in in_file]
    return done
