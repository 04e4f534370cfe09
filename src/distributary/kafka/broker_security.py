"""What makes the embedded broker a secure one: its listeners, who may log in where, and its authorizer.

Clients log in by SCRAM, whose users are in the cluster's own metadata. So nobody could log in before there
are any, and the broker's connections to its controller and to itself (for transactions) need a way of their
own: a listener each that takes one name with a password from the configuration (PLAIN).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from distributary.config.embedded_defaults import HOST, SUPER_USER, plain_login
from distributary.config.sections import Kafka
from distributary.errors import ConfigError

_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class Guard:
    """The port of the broker's own listener, and the password that is wanted there.

    ``keystore`` is a PEM file with the key and the certificates that clients are shown; None: no TLS.
    """

    port: int
    password: str = field(repr=False)
    keystore: Path | None = None

    @property
    def kafka(self) -> Kafka:
        """How `up` connects to give users their passwords and rights; it may do all."""
        return Kafka(
            bootstrap_servers=f"{HOST}:{self.port}", properties=plain_login(SUPER_USER, self.password)
        )

    def rows(self, port: int, controller: int) -> dict[str, str]:
        """The broker's settings, in place of those of a plain one; clients connect to ``port``."""
        clients, own = f"CLIENT://{HOST}:{port}", f"INTERNAL://{HOST}:{self.port}"
        login = plain_login(SUPER_USER, self.password)["sasl.jaas.config"]
        login = f'{login.removesuffix(";")} user_{SUPER_USER}="{self.password}";'
        protocols = dict.fromkeys(("CLIENT", "INTERNAL", "CONTROLLER"), "SASL_PLAINTEXT")
        tls: dict[str, str] = {}
        if self.keystore is not None:
            protocols["CLIENT"] = "SASL_SSL"
            tls = {
                "listener.name.client.ssl.keystore.type": "PEM",
                "listener.name.client.ssl.keystore.location": str(self.keystore),
            }
        return {
            **tls,
            "listeners": f"{clients},{own},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"{clients},{own}",
            "listener.security.protocol.map": ",".join(f"{name}:{one}" for name, one in protocols.items()),
            "inter.broker.listener.name": "INTERNAL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.client.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            **{
                f"listener.name.{name}.{key}": value
                for name in ("internal", "controller")
                for key, value in (
                    ("sasl.enabled.mechanisms", "PLAIN"),
                    ("plain.sasl.jaas.config", login),
                )
            },
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{SUPER_USER}",
            "allow.everyone.if.no.acl.found": "false",
        }


def pem_keystore(certificate: str, key: str) -> str:
    """Join a certificate's file and its key's ('': it is in the same file) as Kafka reads them, in PKCS #8.

    Raises ConfigError for files that cannot be used.
    """
    file, setting = certificate, "kafka.tls_certificate"
    try:
        chain = x509.load_pem_x509_certificates(Path(certificate).read_bytes())
        file, setting = (key, "kafka.tls_key") if key else (file, setting)
        private = serialization.load_pem_private_key(Path(file).read_bytes(), None)
        if private.public_key() != chain[0].public_key():
            raise ConfigError(f"{setting}: {file} is not the key of {certificate}")
    except OSError as error:
        raise ConfigError(f"{setting}: {file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError):
        raise ConfigError(
            f"{setting}: {file} cannot be used: it is not PEM, or something is missing",
            hint="Give PEM files, the key without a password",
        ) from None
    pem = serialization.Encoding.PEM
    texts = [
        private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        *(one.public_bytes(pem) for one in chain),
    ]
    return b"".join(texts).decode()
