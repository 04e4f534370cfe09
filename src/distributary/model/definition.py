"""A view's definition as it is stored: the view and the feed it is made from."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import NamedTuple

from distributary.model.feed import Feed
from distributary.model.view import View


class Definition(NamedTuple):
    """A view with the feed it is made from."""

    view: View
    feed: Feed

    @property
    def build(self) -> str:
        """The id of the build that this definition asks for."""
        return self.view.build_id(self.feed)

    @property
    def text(self) -> str:
        """The stored form; equal definitions have equal text."""
        body = {"view": asdict(self.view), "feed": asdict(self.feed), "stale_after": self.view.stale_after}
        return json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def load_definition(text: str) -> Definition:
    """Read a stored definition."""
    body = json.loads(text)
    view = {**body["view"], "index": tuple(body["view"].get("index", ()))}
    return Definition(View(**view), Feed(**body["feed"]))
