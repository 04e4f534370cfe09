"""Filters: which rows of a view somebody wants, in the words of SQL's ``where``.

``parse`` reads a text, ``normal`` brings it into the one form that equal filters share, ``compiled`` makes a
function of it; ``truth`` is the reference that says what all of that must come to.
"""

from distributary.model.filter.compile import Test, compiled
from distributary.model.filter.evaluate import truth
from distributary.model.filter.flips import flips, timed
from distributary.model.filter.form import ALWAYS, NEVER, Filter
from distributary.model.filter.normal import every, normal
from distributary.model.filter.parse import MAX_TEXT, parse
from distributary.model.filter.row import Row
from distributary.model.filter.syntax import Path
from distributary.model.filter.values import Value, canonical

__all__ = [
    "ALWAYS",
    "MAX_TEXT",
    "NEVER",
    "Filter",
    "Path",
    "Row",
    "Test",
    "Value",
    "canonical",
    "compiled",
    "every",
    "flips",
    "normal",
    "parse",
    "timed",
    "truth",
]
