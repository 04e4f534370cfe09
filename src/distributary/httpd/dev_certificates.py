"""Certificates for development: a local CA and the certificates that it signs. Not for production."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from distributary.errors import UsageError

CA_LIFETIME, LIFETIME = timedelta(days=3650), timedelta(days=397)
"""Of the CA, and of what it signs: some clients reject certificates that are valid for longer."""
RENEW_BEFORE = timedelta(days=30)
"""How long before its expiry a certificate is replaced."""
_CLOCK_SKEW = timedelta(hours=1)

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate: its files, when it expires, and whether it was created just now."""

    certificate: Path
    key: Path
    expires: datetime
    new: bool


def own_names() -> list[str]:
    """List the names by which clients on this machine, and in its network, may call it."""
    return list(dict.fromkeys(("localhost", "127.0.0.1", "::1", socket.gethostname().lower())))


def create_ca(folder: Path, now: datetime | None = None) -> IssuedCertificate:
    """Create ``ca.pem`` and ``ca-key.pem``, unless they exist and are valid. Raises UsageError."""
    current = now or datetime.now(UTC)
    files = folder / "ca.pem", folder / "ca-key.pem"
    existing = _read(*files)
    if existing is not None and existing[0].not_valid_after_utc - current > RENEW_BEFORE:
        return IssuedCertificate(*files, existing[0].not_valid_after_utc, new=False)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"distributary development CA of {socket.gethostname()}")
    usage = x509.KeyUsage(
        *(False, False, False, False, False), key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(name, name, key, current, CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(folder, files[0], certificate.public_bytes(serialization.Encoding.PEM))
    _write(folder, files[1], _pem(key))
    return IssuedCertificate(*files, certificate.not_valid_after_utc, new=True)


def create_server(folder: Path, names: Sequence[str], now: datetime | None = None) -> IssuedCertificate:
    """Create ``server.pem`` and its key for these names, unless there is a valid one. Raises UsageError."""
    return _signed(
        folder,
        "server",
        subject=_name(names[0]),
        names=names,
        usage=ExtendedKeyUsageOID.SERVER_AUTH,
        now=now,
    )


def create_client(folder: Path, user: str, now: datetime | None = None) -> IssuedCertificate:
    """Create the certificate of a client, ``client-USER.pem``, and its key. Raises UsageError."""
    return _signed(
        folder,
        f"client-{user}",
        subject=_name(user),
        names=(),
        usage=ExtendedKeyUsageOID.CLIENT_AUTH,
        now=now,
    )


def _signed(
    folder: Path,
    stem: str,
    *,
    subject: x509.Name,
    names: Sequence[str],
    usage: x509.ObjectIdentifier,
    now: datetime | None,
) -> IssuedCertificate:
    current = now or datetime.now(UTC)
    ca = _read(folder / "ca.pem", folder / "ca-key.pem")
    if ca is None:
        raise UsageError(f"there is no valid CA in {folder}", hint="Create one with: distributary tls dev")
    files = folder / f"{stem}.pem", folder / f"{stem}-key.pem"
    alternative_names = [_general(name) for name in names]
    existing = _read(*files)
    if existing is not None and _is_valid(existing[0], ca[0], alternative_names, current):
        return IssuedCertificate(*files, existing[0].not_valid_after_utc, new=False)
    key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca[1].public_key())
    builder = (
        _builder(subject, ca[0].subject, key, current, LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(authority, critical=False)
    )
    if alternative_names:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternative_names), critical=False)
    certificate = builder.sign(ca[1], hashes.SHA256())
    # The key first: a server that reads the files in between finds a pair that does not match, and retries.
    _write(folder, files[1], _pem(key))
    _write(folder, files[0], certificate.public_bytes(serialization.Encoding.PEM))
    return IssuedCertificate(*files, certificate.not_valid_after_utc, new=True)


def _is_valid(
    certificate: x509.Certificate, ca: x509.Certificate, names: Sequence[x509.GeneralName], now: datetime
) -> bool:
    """True if a certificate was signed by this CA, has these names, and does not expire soon."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    try:
        has = set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        has = set()
    return set(names) <= has and certificate.not_valid_after_utc - now > RENEW_BEFORE


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, now: datetime, time: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + time)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _read(certificate: Path, key: Path) -> tuple[x509.Certificate, Key] | None:
    """Read a certificate and its key; None if they are missing, damaged, or do not match."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        secret = serialization.load_pem_private_key(key.read_bytes(), None)
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(secret, ec.EllipticCurvePrivateKey) or found.public_key() != secret.public_key():
        return None
    return found, secret


def _write(folder: Path, file: Path, data: bytes) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = file.with_name(f".{file.name}.{os.getpid()}.new")
        staged.unlink(missing_ok=True)
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        staged.replace(file)
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}", hint="Choose another folder with --folder"
        ) from None


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
