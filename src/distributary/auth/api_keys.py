"""API keys of services: the configuration has only their hashes, each with what it allows."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distributary.auth.claims import CLAIMS, grant_of_claims
from distributary.auth.grant import API_KEY_PREFIX, Grant
from distributary.auth.jwt_checks import refuse
from distributary.config import Config, load
from distributary.config.problems import nearest
from distributary.errors import ConfigError, DistributaryError, TokenRefused

log = logging.getLogger(__name__)

MAX_KEY = 512
SETTINGS = ("hash", "user", "issued", "expires", *CLAIMS)
"""The fields of an entry of ``auth.keys``."""
CHECK_SECONDS = 1.0
"""Interval between two checks of the configuration file for changes."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_PREFIX = "dk_"
_NAME_HINT = "A lower-case letter, then up to 62 of a-z 0-9 _ -"


class ApiKeys:
    """The keys of the configuration, read again when its file changes.

    A key is random and long, so a plain SHA-256 is enough: it cannot be guessed from its hash. Two keys may
    have the same ``user``, so that one can replace the other.
    """

    def __init__(
        self,
        entries: Mapping[str, str],
        *,
        default_views: str = "none",
        file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read ``auth.keys``; raises ConfigError with the key that cannot be used."""
        self._default_views = default_views
        self._grants = _grants(entries, default_views)
        self._file = file
        self._clock = clock
        self._checked = clock()
        self._version = _version(file)

    @classmethod
    def of(cls, config: Config) -> ApiKeys:
        """Create those of a configuration."""
        auth = config.auth
        return cls(auth.keys, default_views=auth.default_views, file=config.path if auth.keys else None)

    def find(self, key: str) -> Grant:
        """Return what a key allows; raises TokenRefused (api-key).

        All keys are compared, each in constant time, so that the time taken reveals nothing about them.
        """
        self._reload()
        # Bytes of a header that are not UTF-8 arrive as surrogates.
        given = hashlib.sha256(key[:MAX_KEY].encode("utf-8", "surrogatepass")).digest()
        found: Grant | None = None
        for hash, grant in self._grants.items():
            if hmac.compare_digest(hash, given) and len(key) <= MAX_KEY:
                found = grant
        if found is None:
            raise unknown_key()
        return found

    def is_current(self, grant: Grant) -> bool:
        """True unless a grant is that of an API key which was removed or changed."""
        if not grant.user.startswith(API_KEY_PREFIX):
            return True
        self._reload()
        return grant in self._grants.values()

    def _reload(self) -> None:
        """Read the file again if it has changed; an error leaves the keys unchanged."""
        now = self._clock()
        if self._file is None or now - self._checked < CHECK_SECONDS:
            return
        self._checked = now
        version = _version(self._file)
        if version == self._version:
            return
        self._version = version
        try:
            self._grants = _grants(load(self._file).auth.keys, self._default_views)
            log.info("reloaded the API keys: %d", len(self._grants))
        except DistributaryError as error:
            log.error("cannot reload the API keys, which stay unchanged: %s", error)


def create_key() -> tuple[str, str]:
    """Create a key; returns it and its hash as the configuration has it."""
    key = f"{_PREFIX}{secrets.token_urlsafe(32)}"
    return key, f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def is_key(text: str) -> bool:
    """True if a string looks like a key that `create_key` returns."""
    return text.startswith(_PREFIX)


def unknown_key() -> TokenRefused:
    """Create the error for a key that does not exist, or was removed."""
    return refuse("api-key", "unknown API key", "see: distributary token key")


def _version(file: Path | None) -> tuple[int, int] | None:
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found is not None else None


def _grants(entries: Mapping[str, str], default_views: str) -> dict[bytes, Grant]:
    found: dict[bytes, Grant] = {}
    for name, text in entries.items():
        settings = json.loads(text)
        hash = bytes.fromhex(settings["hash"].removeprefix("sha256:"))
        if hash in found:
            raise ConfigError(
                f"auth.keys.{name[:80]}: another entry has the same hash", hint="Create a new key"
            )
        found[hash] = _grant(name, settings, default_views)
    return found


def _grant(name: str, settings: Mapping[str, Any], default_views: str) -> Grant:
    where = f"auth.keys.{name[:80]}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: invalid name for a key", hint=_NAME_HINT)
    for unknown in settings.keys() - set(SETTINGS):
        near = nearest(unknown, SETTINGS)
        raise ConfigError(
            f"{where}.{unknown}: unknown field",
            hint=f'Did you mean "{near}"?' if near else f"The fields are: {', '.join(SETTINGS)}",
        )
    user = settings.get("user", name)
    if not isinstance(user, str) or not _NAME.fullmatch(user):
        raise ConfigError(f"{where}.user: invalid name", hint=_NAME_HINT)
    allowed = {claim: value for claim, value in settings.items() if claim in CLAIMS}
    try:
        grant = grant_of_claims(f"{API_KEY_PREFIX}{user}", allowed, default_views=default_views)
    except TokenRefused as error:
        raise ConfigError(f"{where}: {error.message}", hint=error.hint) from None
    issued, expires = (_time_ms(settings.get(one), f"{where}.{one}") for one in ("issued", "expires"))
    return replace(grant, issued_at=issued, expires_at=expires)


def _time_ms(value: Any, where: str) -> int | None:
    """Parse a time as ms since the epoch; a date is its midnight, and the time zone is UTC by default."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{where}: invalid time", hint='Write it as "2027-01-31" or "2027-01-31T12:00:00Z"'
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
