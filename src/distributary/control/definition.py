"""The reading of definitions that callers send."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from distributary.config import parse_views
from distributary.errors import BadDefinition, ConfigError
from distributary.model.build import Definition
from distributary.model.feed import Feed


def read_definition(name: str, body: Mapping[str, Any], feeds: Iterable[Feed]) -> Definition:
    """Read what a caller sent for the view ``name``; raises BadDefinition with all mistakes.

    The body is the view's settings, where ``feed`` is the name of a known feed or a feed in full; or
    the stored form, ``{"view": {…}, "feed": {…}, "events": {…}}``.
    """
    if isinstance(body.get("view"), dict):
        view, feed = dict(body["view"]), body.get("feed")
        extra = set(body) - {"view", "feed", "events", "stale_after"}
        if extra:
            raise BadDefinition(f'unknown field "{min(extra)}" beside "view"', hint='put it into "view"')
    else:
        view, feed = dict(body), body.get("feed")
    if view.setdefault("name", name) != name:
        raise BadDefinition(f'the definition\'s name is {view["name"]!r}, the address says "{name}"')
    known = {one.name: one for one in feeds}
    document: dict[str, Any] = {"views": [_without_nulls(view)]}
    if isinstance(feed, dict):
        document["feeds"] = [_without_nulls(feed)]
        view_feed = view.get("feed")
        document["views"][0]["feed"] = view_feed if isinstance(view_feed, str) else feed.get("name", name)
        document["feeds"][0].setdefault("name", document["views"][0]["feed"])
    events = body.get("events")
    if isinstance(events, dict):
        document.setdefault("feeds", []).append(_without_nulls(events))
        if not isinstance(view.get("events"), str):
            document["views"][0]["events"] = events.get("name")
    try:
        found = parse_views(json.dumps(document), known)
    except ConfigError as error:
        raise BadDefinition(error.message, hint=error.hint or "see: distributary help views") from None
    one = found.views[0]
    all_feeds = known | {given.name: given for given in found.feeds}
    return Definition(one, all_feeds[one.feed], all_feeds[one.events] if one.events else None)


def _without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}
