"""Filters on the rows of a view, in the syntax of SQL's ``where``.

``parse`` returns a syntax tree, ``normalize`` the normal form that equal filters share, and ``compiled`` a
function of a row. The slow reference implementation that they are tested against is in the tests.
"""

from distributary.model.filter.compile import Test, compiled
from distributary.model.filter.normal_form import ALWAYS, NEVER, Filter
from distributary.model.filter.normalization import all_of, normalize
from distributary.model.filter.parse import MAX_TEXT, parse
from distributary.model.filter.row_view import RowView
from distributary.model.filter.scalars import Value, canonical
from distributary.model.filter.syntax_tree import Path
from distributary.model.filter.time_transitions import next_transition, timed

__all__ = [
    "ALWAYS",
    "MAX_TEXT",
    "NEVER",
    "Filter",
    "Path",
    "RowView",
    "Test",
    "Value",
    "all_of",
    "canonical",
    "compiled",
    "next_transition",
    "normalize",
    "parse",
    "timed",
]
