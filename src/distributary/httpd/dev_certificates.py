"""Certificates for development: a CA of one's own, and what it signs. For nothing that others rely on."""

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

CA_TIME, TIME = timedelta(days=3650), timedelta(days=397)
"""How long a CA counts, and what it signs: some clients refuse longer ones."""
RENEW = timedelta(days=30)
"""What has less than this left is made anew."""
_CLOCKS = timedelta(hours=1)
"""Grace for clocks that differ."""

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Made:
    """One certificate: its files, when it ends, and whether it was made just now."""

    certificate: Path
    key: Path
    ends: datetime
    new: bool


def own_names() -> list[str]:
    """Name this machine as clients on it, and beside it, may call it."""
    return list(dict.fromkeys(("localhost", "127.0.0.1", "::1", socket.gethostname().lower())))


def make_ca(folder: Path, now: datetime | None = None) -> Made:
    """Make ``ca.pem`` and ``ca-key.pem``, unless they are there and good. Raises UsageError."""
    moment = now or datetime.now(UTC)
    files = folder / "ca.pem", folder / "ca-key.pem"
    there = _read(*files)
    if there is not None and there[0].not_valid_after_utc - moment > RENEW:
        return Made(*files, there[0].not_valid_after_utc, new=False)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"distributary development CA of {socket.gethostname()}")
    usage = x509.KeyUsage(
        *(False, False, False, False, False), key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    made = (
        _builder(name, name, key, moment, CA_TIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(folder, files[0], made.public_bytes(serialization.Encoding.PEM))
    _write(folder, files[1], _pem(key))
    return Made(*files, made.not_valid_after_utc, new=True)


def make_server(folder: Path, names: Sequence[str], now: datetime | None = None) -> Made:
    """Make ``server.pem`` and its key for these names, unless they are there and good. Raises UsageError."""
    return _signed(folder, "server", _name(names[0]), names, ExtendedKeyUsageOID.SERVER_AUTH, now)


def make_client(folder: Path, user: str, now: datetime | None = None) -> Made:
    """Make the certificate of a client, ``client-USER.pem``, and its key. Raises UsageError."""
    return _signed(folder, f"client-{user}", _name(user), (), ExtendedKeyUsageOID.CLIENT_AUTH, now)


def _signed(
    folder: Path,
    stem: str,
    subject: x509.Name,
    names: Sequence[str],
    usage: x509.ObjectIdentifier,
    now: datetime | None,
) -> Made:
    moment = now or datetime.now(UTC)
    ca = _read(folder / "ca.pem", folder / "ca-key.pem")
    if ca is None:
        raise UsageError(f"there is no usable CA in {folder}", hint="Make one with: distributary tls dev")
    files = folder / f"{stem}.pem", folder / f"{stem}-key.pem"
    wanted = [_general(name) for name in names]
    there = _read(*files)
    if there is not None and _good(there[0], ca[0], wanted, moment):
        return Made(*files, there[0].not_valid_after_utc, new=False)
    key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca[1].public_key())
    builder = (
        _builder(subject, ca[0].subject, key, moment, TIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(authority, critical=False)
    )
    if wanted:
        builder = builder.add_extension(x509.SubjectAlternativeName(wanted), critical=False)
    made = builder.sign(ca[1], hashes.SHA256())
    # The key first: who looks at the files in between finds a pair that does not fit, and looks again.
    _write(folder, files[1], _pem(key))
    _write(folder, files[0], made.public_bytes(serialization.Encoding.PEM))
    return Made(*files, made.not_valid_after_utc, new=True)


def _good(
    made: x509.Certificate, ca: x509.Certificate, names: Sequence[x509.GeneralName], now: datetime
) -> bool:
    """Say whether a certificate is this CA's, of these names, and not about to end."""
    try:
        made.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    try:
        has = set(made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        has = set()
    return set(names) <= has and made.not_valid_after_utc - now > RENEW


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, now: datetime, time: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCKS)
        .not_valid_after(now + time)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _read(certificate: Path, key: Path) -> tuple[x509.Certificate, Key] | None:
    """Read a certificate and its key; None when they are missing, damaged, or not of each other."""
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
            f"{file} cannot be written: {error.strerror}", hint="Choose another folder with --folder"
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
