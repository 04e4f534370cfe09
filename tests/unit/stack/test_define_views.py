from __future__ import annotations

from dataclasses import replace

from distributary.config import Config
from distributary.model.build import Build
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.stack.define_views import define_views
from distributary.store.memory_store import MemoryStore

FEED = Feed("odds", "sportsbook.odds")
VIEW = View("odds", "odds", key="market_id")
CONFIG = Config(feeds=(FEED,), views=(VIEW,))


def test_view_is_defined_when_it_is_new_or_changed() -> None:
    store = MemoryStore().writer
    assert define_views(CONFIG, store) == ["view odds: new"]
    assert define_views(CONFIG, store) == []
    store.go_live(Build("odds", VIEW.build_id(FEED)))
    assert define_views(CONFIG, store) == []

    shown = replace(CONFIG, views=(replace(VIEW, stale_after=5.0),))
    assert define_views(shown, store) == ["view odds: settings changed"]
    assert define_views(shown, store) == []

    changed = replace(CONFIG, views=(replace(VIEW, where="price > 1"),))
    assert define_views(changed, store) == ["view odds: changed, being built beside the live one"]
    assert define_views(changed, store) == []

    assert define_views(CONFIG, store) == ["view odds: settings changed"]
    assert store.views()["odds"].next == ""
    assert define_views(replace(CONFIG, views=()), store) == ["view odds: not in the file, left unchanged"]


def test_callback_receives_the_name_of_each_defined_view() -> None:
    store = MemoryStore().writer
    defined: list[str] = []
    define_views(CONFIG, store, defined.append)
    define_views(CONFIG, store, defined.append)
    assert defined == ["odds"]
