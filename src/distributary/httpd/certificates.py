"""The certificate of a server, reloaded when its files change.

The new certificate is loaded into the context that is already listening, and is used for later handshakes.
Existing connections keep the old one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from distributary.config.server_sections import Listening
from distributary.errors import ConfigError

log = logging.getLogger(__name__)

CHECK_INTERVAL = 1.0
"""Seconds between two checks of the files."""
WARN_BEFORE = timedelta(days=14)
"""How long before a certificate expires a warning is logged."""

_Signature = tuple[tuple[int, int, int] | None, ...]


class Certificates:
    """The TLS context of a listener; ``section`` is the name of its settings in messages.

    ``context`` is None if no certificate is configured. Raises ConfigError for files that cannot be used.
    """

    def __init__(self, settings: Listening, section: str) -> None:
        self._settings, self._section = settings, section
        self._loaded = self._failed = self._signature()
        self.context: ssl.SSLContext | None = None
        if settings.tls_certificate:
            self.context = self._load(self._empty())
            self._log_expiry()

    def refresh(self) -> None:
        """Reload the files if they changed. Files that cannot be used are logged, and the old ones kept."""
        if self.context is None:
            return
        found = self._signature()
        if found == self._loaded:
            return
        try:
            # Tried in a new context first: one that was loaded by half could serve no connection.
            self._load(self._empty())
            self._load(self.context)
        except ConfigError as error:
            if found == self._failed:  # failed twice: the file is not just being written
                log.error("TLS: %s: keeping the old certificate", error)
                self._loaded = found
            self._failed = found
            return
        self._loaded = self._failed = found
        log.info("TLS: %s.tls_certificate changed: new connections use the new one", self._section)
        self._log_expiry()

    async def watch(self) -> None:
        """Check the files at intervals, if there are any."""
        while self.context is not None:
            await asyncio.sleep(CHECK_INTERVAL)
            self.refresh()

    def _empty(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._settings.tls_client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        certificate, ca = self._settings.tls_certificate, self._settings.tls_client_ca
        key = self._settings.tls_key or certificate
        for name, file in self._files().items():
            _readable(f"{self._section}.{name}", file)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{self._section}.tls_certificate: {certificate} cannot be used with {key}: {_reason(error)}",
                hint="Both must be PEM files; the key must fit the first certificate, and have no password",
            ) from None
        if ca:
            try:
                context.load_verify_locations(ca)
            except (ssl.SSLError, ValueError) as error:
                raise ConfigError(
                    f"{self._section}.tls_client_ca: {ca} cannot be used: {_reason(error)}",
                    hint="It must be a PEM file with the certificates of your CAs",
                ) from None
        return context

    def _files(self) -> dict[str, str]:
        names = ("tls_certificate", "tls_key", "tls_client_ca")
        return {name: getattr(self._settings, name) for name in names if getattr(self._settings, name)}

    def _signature(self) -> _Signature:
        found: list[tuple[int, int, int] | None] = []
        for file in self._files().values():
            try:
                stat = os.stat(file)
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
            except OSError:
                found.append(None)
        return tuple(found)

    def _log_expiry(self) -> None:
        """Log if the certificate has expired, or soon will."""
        file = self._settings.tls_certificate
        with contextlib.suppress(OSError, ValueError):
            end = x509.load_pem_x509_certificate(Path(file).read_bytes()).not_valid_after_utc
            if end < datetime.now(UTC):
                log.error("TLS: %s expired on %s: clients reject it", file, end.date())
            elif end < datetime.now(UTC) + WARN_BEFORE:
                log.warning("TLS: %s expires on %s", file, end.date())


def reload_on_hangup(*certificates: Certificates) -> None:
    """Check the files on SIGHUP, too; at a terminal that signal keeps its meaning."""
    if any(one.context is not None for one in certificates) and not sys.stdout.isatty():

        def refresh() -> None:
            for one in certificates:
                one.refresh()

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, refresh)


def _readable(setting: str, file: str) -> None:
    try:
        Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{setting}: {file} cannot be read: {error.strerror}") from None


def _no_password() -> str:
    """Keep OpenSSL from prompting for a password at the terminal."""
    return ""


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).replace("_", " ").lower()
