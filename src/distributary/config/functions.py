"""Which Python functions views may name: those of the configuration file, and those that it allows.

A definition also comes over REST, or from whoever can write to the store, and its function runs in the
reducers, with all that they can read.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from distributary.config.loader import Config
from distributary.model.view import View


def functions_of(view: View) -> Iterator[str]:
    """List the functions that a view names, as ``module:function``."""
    for name in (view.reduce, view.reduce_events):
        if name and ":" in name:
            yield name


def unlisted_functions(config: Config, view: View) -> list[str]:
    """List the functions of a view that the configuration does not allow."""
    known = {name for one in config.views for name in functions_of(one)}
    return [
        name
        for name in functions_of(view)
        if name not in known and not any(fnmatchcase(name, pattern) for pattern in config.auth.functions)
    ]
