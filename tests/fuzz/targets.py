"""The table of targets."""

from __future__ import annotations

from tests.fuzz import access, documents, http, protocol, queries
from tests.fuzz.engine import Target

TARGETS: tuple[Target, ...] = (
    *protocol.TARGETS,
    *queries.TARGETS,
    *access.TARGETS,
    *documents.TARGETS,
    *http.TARGETS,
)
BY_NAME = {target.name: target for target in TARGETS}
