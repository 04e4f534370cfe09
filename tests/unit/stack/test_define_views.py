from __future__ import annotations

from dataclasses import replace

from tests.unit.control.conftest import FEED, VIEW, Api

from distributary.model.build import Build
from distributary.stack.define_views import apply_config


async def test_new_changed_unchanged_and_left(api: Api) -> None:
    store = api.store.writer
    assert apply_config(api.config, store) == ["view odds: new"]
    assert apply_config(api.config, store) == []
    store.go_live(Build("odds", VIEW.build_id(FEED)))
    assert apply_config(api.config, store) == []

    shown = replace(api.config, views=(replace(VIEW, stale_after=5.0),))
    assert apply_config(shown, store) == ["view odds: settings changed"]
    assert apply_config(shown, store) == []

    changed = replace(api.config, views=(replace(VIEW, where="price > 1"),))
    assert apply_config(changed, store) == ["view odds: changed, built beside the one that is live"]
    assert apply_config(changed, store) == []

    assert apply_config(api.config, store) == ["view odds: settings changed"]
    assert store.views()["odds"].next == ""
    assert apply_config(replace(api.config, views=()), store) == ["view odds: not in the file, left as it is"]


async def test_names_of_defined_views_are_told(api: Api) -> None:
    defined: list[str] = []
    apply_config(api.config, api.store.writer, defined.append)
    apply_config(api.config, api.store.writer, defined.append)
    assert defined == ["odds"]
