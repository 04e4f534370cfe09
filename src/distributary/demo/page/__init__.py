"""The page of the demo: three files without a build step, and without files of other sites."""

from __future__ import annotations

from pathlib import Path

PAGE_FOLDER = Path(__file__).parent
PAGE_FILES = ("index.html", "app.js", "style.css")
