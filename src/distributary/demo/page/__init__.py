"""The demo's page: three files for the publisher's HTTP port. No build step, nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
FILES = ("index.html", "app.js", "style.css")
