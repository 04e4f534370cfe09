"""The certificate of a server, read again when its files change.

A context that listens keeps listening: the new certificate is loaded into it, and counts for the handshakes
that follow. Connections that are there go on with the old one.
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

LOOK = 1.0
"""Seconds between two looks at the files."""
SOON = timedelta(days=14)
"""How long before the end of a certificate the log says so."""

_Signature = tuple[tuple[int, int, int] | None, ...]


class Certificates:
    """What one listener needs to speak TLS; ``section`` names its settings in messages.

    ``context`` is None where no certificate is configured. Raises ConfigError for files that cannot be used.
    """

    def __init__(self, settings: Listening, section: str) -> None:
        self._settings, self._section = settings, section
        self._seen = self._suspect = self._signature()
        self.context: ssl.SSLContext | None = None
        if settings.tls_certificate:
            self.context = self._load(self._empty())
            self._tell_end()

    def refresh(self) -> None:
        """Load the files again if they changed. What cannot be used is logged, and the old ones stay."""
        if self.context is None:
            return
        found = self._signature()
        if found == self._seen:
            return
        try:
            # Tried apart: a context into which half of it was loaded could serve nobody any more.
            self._load(self._empty())
            self._load(self.context)
        except ConfigError as error:
            if found == self._suspect:  # for the second time: it is not just being written
                log.error("TLS: %s: the certificate of before stays in use", error)
                self._seen = found
            self._suspect = found
            return
        self._seen = self._suspect = found
        log.info("TLS: %s.tls_certificate changed: new connections get the new one", self._section)
        self._tell_end()

    async def watch(self) -> None:
        """Look at the files again and again, if there are any."""
        while self.context is not None:
            await asyncio.sleep(LOOK)
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
                hint="Both are PEM files, the key is that of the first certificate, and has no password",
            ) from None
        if ca:
            try:
                context.load_verify_locations(ca)
            except (ssl.SSLError, ValueError) as error:
                raise ConfigError(
                    f"{self._section}.tls_client_ca: {ca} cannot be used: {_reason(error)}",
                    hint="It is a PEM file with the certificates of your CAs",
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

    def _tell_end(self) -> None:
        """Log that the certificate is over, or soon will be."""
        file = self._settings.tls_certificate
        with contextlib.suppress(OSError, ValueError):
            end = x509.load_pem_x509_certificate(Path(file).read_bytes()).not_valid_after_utc
            if end < datetime.now(UTC):
                log.error("TLS: %s ended on %s: clients refuse it", file, end.date())
            elif end < datetime.now(UTC) + SOON:
                log.warning("TLS: %s ends on %s", file, end.date())


def reload_on_hangup(*certificates: Certificates) -> None:
    """Look at the files on SIGHUP, too; at a terminal that signal keeps its meaning."""
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
    """Keep OpenSSL from asking for one at the terminal."""
    return ""


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).replace("_", " ").lower()
