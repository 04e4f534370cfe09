"""How this project's own clients call servers: which ones they trust, and where they send credentials.

Certificates are always verified, against the system's CAs and the one that DISTRIBUTARY_TLS_CA names. A stack
of this machine is known better: its files contain the certificate that it serves, so a client that reaches it
by a loopback address accepts exactly that one, whatever names it was issued for.

Credentials are sent to the host that they are for, and to no other: on a redirect, urllib would send every
header of the request, ``Authorization`` and ``X-API-Key`` too, to whatever address the response names.
"""

from __future__ import annotations

import functools
import json
import os
import ssl
import urllib.request
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.error import URLError
from urllib.parse import urlsplit

from distributary.auth.addresses import is_loopback
from distributary.errors import ConfigError

CA = "DISTRIBUTARY_TLS_CA"
CERTIFICATE = "DISTRIBUTARY_TLS_CERTIFICATE"
KEY = "DISTRIBUTARY_TLS_KEY"

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class Trust:
    """Creates the TLS contexts of a client.

    ``pinned`` are the certificate files of the local stack, and ``ports`` the ports where it serves them
    (None: any port).
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
        """Trust the stack with this data folder, if there is one, and what every client trusts."""
        try:
            state = json.loads((data_dir / "stack.json").read_bytes())
            addresses = [one for component in state["components"] for one in component["addresses"].values()]
            ports = {urlsplit(one).port or 0 for one in addresses if "://" in one}
            return cls(env, [str(file) for file in state["certificates"]], ports)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(env)

    def context(self, url: str) -> ssl.SSLContext | None:
        """Create the context for a URL; None if it has no TLS.

        Raises ConfigError when a file that the environment names cannot be used.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("https", "wss"):
            return None
        local = is_loopback(parts.hostname or "") and (self._ports is None or parts.port in self._ports)
        leaves = "".join(filter(None, map(_leaf, self._pinned))) if local else ""
        files = (self._ca, self._certificate, self._key)
        return _context(*files, leaves, tuple(map(_changed, files)))


@functools.lru_cache(maxsize=8)
def _context(ca: str, certificate: str, key: str, leaves: str, changed: tuple[int, ...]) -> ssl.SSLContext:
    """Create a context; ``changed`` are the times of the files, so that changed ones are read again."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if leaves else ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if leaves:
        # Nobody else has the private key of this very certificate, so the names in it add nothing.
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=leaves)
    elif ca:
        with _file_errors(CA, ca):
            context.load_verify_locations(ca)
    if certificate:
        with _file_errors(CERTIFICATE, certificate):
            context.load_cert_chain(certificate, key or certificate, password=lambda: "")
    return context


def tls_hint(error: object) -> str:
    """Return a hint for a connection that failed because of TLS; "" for another cause."""
    text = str(error).lower()
    if isinstance(error, ssl.SSLCertVerificationError) or "certificate verify failed" in text:
        return f"If its certificate was issued by your own CA, set {CA} to that CA's file"
    if "certificate required" in text or "handshake failure" in text:
        return f"It requires a client certificate: set {CERTIFICATE} to its file and {KEY} to its key"
    if "wrong version number" in text or "record layer failure" in text:
        return "It does not use TLS: try http:// or ws://"
    return ""


class _file_errors:
    """Turns an exception that a file caused into an error that names the file."""

    def __init__(self, variable: str, file: str) -> None:
        self._problem = f"{variable}: {file} cannot be used"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ssl.SSLError | ValueError):
            reason = str(getattr(error, "reason", None) or error).replace("_", " ").lower()
            raise ConfigError(f"{self._problem}: {reason}", hint="It must be a PEM file") from None
        if isinstance(error, OSError):
            raise ConfigError(f"{self._problem}: {error.strerror}") from None


def _leaf(file: str | Path) -> str:
    """Read the first certificate of a file, which is the server's own; "" when there is none."""
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


# --- redirects ---------------------------------------------------------------------------------------------

_PORTS = {"http": 80, "https": 443}


class SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects within one host and port, or from http to https of one host; else raises URLError."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Create the request that follows a redirect."""
        if not same_host(req.full_url, newurl):
            fp.close()
            raise URLError(
                f"it redirects to {urlsplit(newurl).netloc[:100]!r}, where credentials are not sent"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def same_host(url: str, target: str) -> bool:
    """True if credentials for one URL may be sent to another."""
    one, other = urlsplit(url), urlsplit(target)
    try:
        ports = one.port or _PORTS.get(one.scheme), other.port or _PORTS.get(other.scheme)
    except ValueError:
        return False
    if one.hostname != other.hostname or other.hostname is None:
        return False
    return (one.scheme == other.scheme and ports[0] == ports[1]) or (
        (one.scheme, other.scheme) == ("http", "https")
    )


def opener(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Create an opener of requests that uses `SameHost` and other handlers."""
    return urllib.request.build_opener(SameHost(), *handlers)
