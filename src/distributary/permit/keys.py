"""API keys of services: only their hashes are kept, each with what it allows."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from distributary.config.problem import nearest
from distributary.errors import ConfigError, TokenRefused
from distributary.permit.grant import CLAIMS, Grant, of_claims
from distributary.permit.tokens import refuse

MAX_KEY = 512

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class ApiKeys:
    """The keys of the configuration.

    A key is random and long, so one plain SHA-256 of it is enough: there is nothing to guess from.
    """

    def __init__(self, entries: Mapping[str, str], *, default_views: str = "none") -> None:
        """Read ``permit.keys``; raises ConfigError with the key that cannot be used."""
        self._grants: list[tuple[bytes, Grant]] = []
        for name, text in entries.items():
            settings = json.loads(text)
            hash = bytes.fromhex(settings.pop("hash").removeprefix("sha256:"))
            self._grants.append((hash, _grant(name, settings, default_views)))

    def find(self, key: str) -> Grant:
        """Give what a key allows; raises TokenRefused (api-key).

        All are compared, each in constant time, so that the time taken tells nothing of the keys there are.
        """
        given = hashlib.sha256(key[:MAX_KEY].encode()).digest()
        found: Grant | None = None
        for hash, grant in self._grants:
            if hmac.compare_digest(hash, given) and len(key) <= MAX_KEY:
                found = grant
        if found is None:
            raise refuse("api-key", "there is no such API key", "see: distributary token key")
        return found


def make_key() -> tuple[str, str]:
    """Make a key; gives it and its hash as the configuration has it."""
    key = f"dk_{secrets.token_urlsafe(32)}"
    return key, f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def _grant(name: str, settings: dict[str, Any], default_views: str) -> Grant:
    where = f"permit.keys.{name[:80]}"
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: not a name for a key", hint="A lower-case letter, then up to 62 of a-z 0-9 _ -"
        )
    for unknown in settings.keys() - set(CLAIMS):
        near = nearest(unknown, CLAIMS)
        raise ConfigError(
            f"{where}.{unknown}: unknown key",
            hint=f'Did you mean "{near}"?' if near else f"There are: hash, {', '.join(CLAIMS)}",
        )
    try:
        return of_claims(f"key:{name}", settings, default_views=default_views, revocable=False)
    except TokenRefused as error:
        raise ConfigError(f"{where}: {error.message}", hint=error.hint) from None
