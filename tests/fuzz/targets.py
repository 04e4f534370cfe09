"""The table of targets."""

from __future__ import annotations

from tests.fuzz import auth_targets, document_targets, http_targets, protocol_targets, query_targets
from tests.fuzz.engine import Target

TARGETS: tuple[Target, ...] = (
    *protocol_targets.TARGETS,
    *query_targets.TARGETS,
    *auth_targets.TARGETS,
    *document_targets.TARGETS,
    *http_targets.TARGETS,
)
BY_NAME = {target.name: target for target in TARGETS}
