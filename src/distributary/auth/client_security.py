"""Which servers our own clients believe, and what they show to servers that ask who they are.

Certificates are always verified: against the system's CAs, and the one that DISTRIBUTARY_TLS_CA names. A
stack of this machine is known better: its files say which certificate it serves, so a client that reaches it
by a loopback address demands exactly that one, under whatever name it was made for.
"""

from __future__ import annotations

import functools
import json
import os
import ssl
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from distributary.auth.client_address import is_loopback
from distributary.errors import ConfigError

CA = "DISTRIBUTARY_TLS_CA"
CERTIFICATE = "DISTRIBUTARY_TLS_CERTIFICATE"
KEY = "DISTRIBUTARY_TLS_KEY"

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class Trust:
    """Makes the TLS contexts of a client.

    ``pinned`` are the files of the own stack's certificates, ``ports`` where it has them; None: anywhere.
    """

    def __init__(
        self,
        env: Mapping[str, str] = os.environ,
        pinned: Iterable[str | Path] = (),
        ports: Collection[int] | None = None,
    ) -> None:
        self._ports = ports
        self._ca, self._certificate, self._key = (env.get(name, "") for name in (CA, CERTIFICATE, KEY))
        self._pinned = tuple(pinned)

    @classmethod
    def of_stack(cls, data_dir: Path, env: Mapping[str, str] = os.environ) -> Trust:
        """Trust the stack that keeps its data there, if there is one, beside everybody else."""
        try:
            state = json.loads((data_dir / "stack.json").read_bytes())
            addresses = [one for part in state["parts"] for one in part["addresses"].values()]
            ports = {urlsplit(one).port or 0 for one in addresses if "://" in one}
            return cls(env, [str(file) for file in state["certificates"]], ports)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(env)

    def context(self, url: str) -> ssl.SSLContext | None:
        """Make the context for an address; None where it has no TLS.

        Raises ConfigError when a file that the environment names cannot be used.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("https", "wss"):
            return None
        ours = is_loopback(parts.hostname or "") and (self._ports is None or parts.port in self._ports)
        leaves = "".join(filter(None, map(_leaf, self._pinned))) if ours else ""
        files = (self._ca, self._certificate, self._key)
        return _context(*files, leaves, tuple(map(_changed, files)))


@functools.lru_cache(maxsize=8)
def _context(ca: str, certificate: str, key: str, leaves: str, changed: tuple[int, ...]) -> ssl.SSLContext:
    """Make a context; ``changed`` says of which files, so that changed ones are read again."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if leaves else ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if leaves:
        # Nobody else has the key of this very certificate, so the name in it says nothing more.
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=leaves)
    elif ca:
        with _named(CA, ca):
            context.load_verify_locations(ca)
    if certificate:
        with _named(CERTIFICATE, certificate):
            context.load_cert_chain(certificate, key or certificate, password=lambda: "")
    return context


def tls_hint(error: object) -> str:
    """Say what to do about a connection that failed for its TLS; "" when that was not it."""
    text = str(error).lower()
    if isinstance(error, ssl.SSLCertVerificationError) or "certificate verify failed" in text:
        return f"If its certificate is of a CA of your own, name that CA's file in {CA}"
    if "certificate required" in text or "handshake failure" in text:
        return f"It asks for a client certificate: name its file in {CERTIFICATE}, its key's in {KEY}"
    if "wrong version number" in text or "record layer failure" in text:
        return "It does not speak TLS there: try http:// or ws://"
    return ""


class _named:
    """Turns what a file causes into an error that names it."""

    def __init__(self, variable: str, file: str) -> None:
        self._said = f"{variable}: {file} cannot be used"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ssl.SSLError | ValueError):
            why = str(getattr(error, "reason", None) or error).replace("_", " ").lower()
            raise ConfigError(f"{self._said}: {why}", hint="It is a PEM file") from None
        if isinstance(error, OSError):
            raise ConfigError(f"{self._said}: {error.strerror}") from None


def _leaf(file: str | Path) -> str:
    """Read the first certificate of a file: the server's own; "" when there is none."""
    try:
        text = Path(file).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    start = text.find(_BEGIN)
    end = text.find(_END, start)
    return f"{text[start : end + len(_END)]}\n" if 0 <= start < end else ""


def _changed(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns if file else 0
    except OSError:
        return 0
