"""Masks what must not be printed: passwords in URLs, and properties, unless they are known to be harmless.

The properties of Kafka, Spark and their plugins cannot all be known, and a list of the secret ones is never
complete. So a property is shown only if its value cannot be a secret (a number, a flag, a constant) or its
name shows that it is harmless.
"""

from __future__ import annotations

import re

MASK = "***"

_NAMES = re.compile(
    r"password|passwd|passphrase|secret|token|credential|private|signature|(access|account|api|shared)[._-]?key"
    r"|sasl\.jaas\.config|ssl\.keystore\.key|ssl\.key\.pem|user\.info|oauthbearer\.config",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(^|[._-])(servers?|hosts?|address|port|protocol|mechanisms?|location|locale|class(es)?|impl|type|types"
    r"|version|policy|strategy|level|reset|codec|format|algorithm|ciphers?|suites|rack|zone|region|endpoint"
    r"|master|mode|name|names|topic|group|id|dir|dirs|path|paths|file|files|encoding|debug|interval|timeout|ms"
    r"|bytes|size|memory|cores|instances|partitions|enable|enabled|python|jars|packages|extensions)$",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"|true|false|[+-]?\d{1,15}(\.\d{1,6})?\s?[a-z%]{0,3}|[A-Z][A-Z0-9]*(_[A-Z0-9]+)*", re.ASCII
)
"""Values that are not secrets, whatever their name: flags, numbers with a unit, constants."""
# A scheme is short; otherwise the time would grow with the square of the length. Greedy to the last "@":
# a password that was not percent-encoded may hold "/" or "@" itself.
_USERINFO = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://[^:/@\s]*):[^\s]*@")
# A user without a password may be a token.
_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^:/@\s]+@")
_QUERY = re.compile(
    r"((?:password|passwd|secret|token|api[_-]?key|signature|sig|credential)=)[^&;,\s]+", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """Return whether the value of a property must be masked, by its name."""
    return _NAMES.search(name) is not None


def is_secret_property(name: str, value: str) -> bool:
    """Return whether a property is known to be a secret; `mask_property` also masks possible ones."""
    return bool(value) and (is_secret(name) or "-----BEGIN" in value or mask_text(value) != value)


def mask_text(text: str) -> str:
    """Mask passwords and tokens in URLs; any other string is returned unchanged."""
    without = _USER.sub(rf"\1{MASK}@", _USERINFO.sub(rf"\1:{MASK}@", text))
    return _QUERY.sub(rf"\1{MASK}", without)


def mask_property(name: str, value: str) -> str:
    """Mask the value of a property unless it is known to be harmless, and passwords in URLs everywhere."""
    if not value:
        return value
    harmless = _PLAIN.fullmatch(value) is not None or _HARMLESS.search(name) is not None
    return MASK if is_secret(name) or not harmless or "-----BEGIN" in value else mask_text(value)
