"""What is asked of a topic's records on their way in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic whose records are checked and sorted by whatever writes them.

    ``schema`` names a file, "" for none; of a ``framed`` value the first five bytes, which name a schema of
    a registry, are passed over. ``routes`` has the filter of each other topic, the first that is true
    counts.
    """

    name: str
    schema: str = ""
    framed: bool = False
    routes: Mapping[str, str] = field(default_factory=dict)
    dead_letters: str = ""

    @property
    def dead_letter_topic(self) -> str:
        """Where records go that do not fit."""
        return self.dead_letters or f"{self.name}.dead-letters"
