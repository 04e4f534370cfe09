"""What must not be printed: passwords in addresses, and properties that are secrets by their name."""

from __future__ import annotations

import re

MASK = "***"

_NAMES = re.compile(
    r"password|passwd|secret|token|credential|private|access[._-]?key"
    r"|sasl\.jaas\.config|ssl\.keystore\.key|basic\.auth\.user\.info",
    re.IGNORECASE,
)
# Greedy to the last "@": a password that was not percent-encoded may hold "/" or "@" itself.
_USERINFO = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^:/@\s]*):[^\s]*@")
_QUERY = re.compile(r"((?:password|secret|token)=)[^&;,\s]+", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Say whether a property's value must be hidden, by the property's name."""
    return _NAMES.search(name) is not None


def mask_text(text: str) -> str:
    """Hide the passwords inside addresses; any other text is returned as it is."""
    return _QUERY.sub(rf"\1{MASK}", _USERINFO.sub(rf"\1:{MASK}@", text))


def mask_property(name: str, value: str) -> str:
    """Hide a property's value where its name says so, and passwords in addresses everywhere."""
    return MASK if value and is_secret(name) else mask_text(value)
