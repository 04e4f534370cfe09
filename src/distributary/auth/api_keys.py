"""API keys of services: only their hashes are kept, each with what it allows."""

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

from distributary.auth.claims import CLAIMS, of_claims
from distributary.auth.grant import OF_KEYS, Grant
from distributary.auth.jwt_checks import refuse
from distributary.config import Config, load
from distributary.config.problems import nearest
from distributary.errors import ConfigError, DistributaryError, TokenRefused

log = logging.getLogger(__name__)

MAX_KEY = 512
SETTINGS = ("hash", "user", "issued", "expires", *CLAIMS)
"""What an entry of ``auth.keys`` may say."""
LOOK = 1.0
"""Seconds after which the configuration file is looked at again."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_PREFIX = "dk_"
_NAMED = "A lower-case letter, then up to 62 of a-z 0-9 _ -"


class ApiKeys:
    """The keys of the configuration, read again when its file changes.

    A key is random and long, so one plain SHA-256 of it is enough: there is nothing to guess from. Two keys
    may stand for the same ``user``, so that one can take the other's place.
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
        self._looked = clock()
        self._seen = _version(file)

    @classmethod
    def of(cls, config: Config) -> ApiKeys:
        """Make those of a configuration."""
        auth = config.auth
        return cls(auth.keys, default_views=auth.default_views, file=config.path if auth.keys else None)

    def find(self, key: str) -> Grant:
        """Give what a key allows; raises TokenRefused (api-key).

        All are compared, each in constant time, so that the time taken tells nothing of the keys there are.
        """
        self._look()
        # Bytes of a header that are no UTF-8 come as surrogates.
        given = hashlib.sha256(key[:MAX_KEY].encode("utf-8", "surrogatepass")).digest()
        found: Grant | None = None
        for hash, grant in self._grants.items():
            if hmac.compare_digest(hash, given) and len(key) <= MAX_KEY:
                found = grant
        if found is None:
            raise unknown_key()
        return found

    def is_current(self, grant: Grant) -> bool:
        """Say whether a grant is not that of an API key, or of one that is still there and unchanged."""
        if not grant.user.startswith(OF_KEYS):
            return True
        self._look()
        return grant in self._grants.values()

    def _look(self) -> None:
        """Read the file again if it has changed; what cannot be read leaves the keys as they were."""
        now = self._clock()
        if self._file is None or now - self._looked < LOOK:
            return
        self._looked = now
        version = _version(self._file)
        if version == self._seen:
            return
        self._seen = version
        try:
            self._grants = _grants(load(self._file).auth.keys, self._default_views)
            log.info("the API keys were read again: there are %d", len(self._grants))
        except DistributaryError as error:
            log.error("the API keys stay as they were: %s", error)


def make_key() -> tuple[str, str]:
    """Make a key; gives it and its hash as the configuration has it."""
    key = f"{_PREFIX}{secrets.token_urlsafe(32)}"
    return key, f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def is_key(text: str) -> bool:
    """Say whether a text is written like a key that `make_key` made."""
    return text.startswith(_PREFIX)


def unknown_key() -> TokenRefused:
    """Make the error of a key that is not there, or not any more."""
    return refuse("api-key", "there is no such API key", "see: distributary token key")


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
                f"auth.keys.{name[:80]}: another entry has the same hash", hint="Make a new key"
            )
        found[hash] = _grant(name, settings, default_views)
    return found


def _grant(name: str, settings: Mapping[str, Any], default_views: str) -> Grant:
    where = f"auth.keys.{name[:80]}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: not a name for a key", hint=_NAMED)
    for unknown in settings.keys() - set(SETTINGS):
        near = nearest(unknown, SETTINGS)
        raise ConfigError(
            f"{where}.{unknown}: unknown key",
            hint=f'Did you mean "{near}"?' if near else f"There are: {', '.join(SETTINGS)}",
        )
    user = settings.get("user", name)
    if not isinstance(user, str) or not _NAME.fullmatch(user):
        raise ConfigError(
            f"{where}.user: not a name", hint="A lower-case letter, then up to 62 of a-z 0-9 _ -"
        )
    allowed = {claim: value for claim, value in settings.items() if claim in CLAIMS}
    try:
        grant = of_claims(f"{OF_KEYS}{user}", allowed, default_views=default_views)
    except TokenRefused as error:
        raise ConfigError(f"{where}: {error.message}", hint=error.hint) from None
    issued, expires = (_moment(settings.get(one), f"{where}.{one}") for one in ("issued", "expires"))
    return replace(grant, issued_at=issued, expires_at=expires)


def _moment(value: Any, where: str) -> int | None:
    """Read a time as ms since the epoch; a date is its first moment, in UTC where nothing else is said."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{where}: not a time", hint='Write it as "2027-01-31" or "2027-01-31T12:00:00Z"'
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
