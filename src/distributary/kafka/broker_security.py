"""The security of the embedded broker: its listeners, who may log in where, and each component's ACLs.

Clients log in by SCRAM; SCRAM users are stored in the cluster's own metadata, so at first there is none that
could log in. The broker's connections to its controller and to itself (for transactions) therefore have a
listener each that accepts one user, with a password from the configuration (PLAIN).

Views are defined while the stack runs, over any topic, so rights on feeds are rights on all topics; access
that a component does not need is denied by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from distributary.config.embedded_defaults import HOST, SUPER_USER, plain_login
from distributary.config.sections import Kafka
from distributary.errors import ConfigError
from distributary.kafka import access_admin
from distributary.kafka.access_admin import Acl, AclFilter
from distributary.kafka.admin import Cluster

_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class BrokerSecurity:
    """The port of the broker's internal listener, and the password that it requires.

    ``keystore`` is a PEM file with the key and certificates for clients; without one there is no TLS.
    """

    port: int
    password: str = field(repr=False)
    keystore: Path | None = None

    @property
    def kafka(self) -> Kafka:
        """How `up` connects, as a super user, to set passwords and ACLs."""
        return Kafka(
            bootstrap_servers=f"{HOST}:{self.port}", properties=plain_login(SUPER_USER, self.password)
        )

    def settings(self, port: int, controller: int) -> dict[str, str]:
        """The settings that replace those of a broker without security; clients connect to ``port``."""
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
    """Join the files of a certificate and its key ('': it is in the same file) in Kafka's form, PKCS #8.

    Raises ConfigError for invalid files.
    """
    file, setting = certificate, "kafka.tls_certificate"
    try:
        chain = x509.load_pem_x509_certificates(Path(certificate).read_bytes())
        file, setting = (key, "kafka.tls_key") if key else (file, setting)
        private = serialization.load_pem_private_key(Path(file).read_bytes(), None)
        if private.public_key() != chain[0].public_key():
            raise ConfigError(f"{setting}: {file} is not the key of {certificate}")
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {file}: {error.strerror}") from None
    except (ValueError, TypeError):
        raise ConfigError(
            f"{setting}: {file} is not a valid PEM file, or it is incomplete",
            hint="Give PEM files, the key without a password",
        ) from None
    pem = serialization.Encoding.PEM
    texts = [
        private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        *(one.public_bytes(pem) for one in chain),
    ]
    return b"".join(texts).decode()


# --- the ACLs of each component -------------------------------------------------------------------------


COMPONENTS = ("control", "gateway", "reducers", "publisher")
OWN = "distributary."
"""The prefix of our own groups and of the topics that the reducers create for themselves."""
REKEYED = "distributary.rekeyed."
SPARK = "spark-kafka-source-"
"""The prefix of the groups that Spark reads with."""


def user_of(component: str) -> str:
    """The user that a component logs in as."""
    return f"distributary-{component}"


def component_acls(commands: str, schemas: str) -> list[Acl]:
    """The ACLs of all components; ``commands`` and ``schemas`` are the topics of commands and schemas."""
    control, gateway, reducers, publisher = (f"User:{user_of(component)}" for component in COMPONENTS)
    every, write = "*", ("write", "create")
    return [
        # Reads end offsets and the time of the oldest unread record; writes commands about subscriptions.
        *_topic(control, every, "read"),
        *_topic(control, commands, "write"),
        *_groups(control, "distributary.lookup"),
        # Serves Kafka over HTTP, with its own authorization of topics, and stores the schemas.
        *_topic(gateway, every, "read", "describe-configs", *write),
        *_deny(gateway, commands, REKEYED),
        Acl("group", every, gateway, "read"),
        *(Acl("transactional-id", f"{schemas}.writer", gateway, one) for one in ("write", "describe")),
        # Read feeds, write dead letters, create and delete re-keyed topics, commit offsets for tools.
        *_topic(reducers, every, "read", "describe-configs", *write),
        *_topic(reducers, REKEYED, "delete", prefixed=True),
        *_deny(reducers, commands),
        *_deny(reducers, schemas),
        *(Acl("group", name, reducers, "read", prefixed=True) for name in (OWN, SPARK)),
        *_groups(reducers, "distributary-commands", "distributary-events", "distributary-schemas"),
        # Writes what clients publish, and its dead letters; reads again what a subscriber missed.
        *_topic(publisher, every, "read", "describe-configs", *write),
        *_deny(publisher, schemas, REKEYED),
        *_groups(publisher, "distributary.replay"),
    ]


def apply_acls(cluster: Cluster, acls: Iterable[Acl], passwords: Mapping[str, str]) -> None:
    """Make exactly these the ACLs of their principals, then set the users' passwords.

    In this order, so that a user has its ACLs when it can log in for the first time.
    """
    required = set(acls)
    existing = {one for who in {one.principal for one in required} for one in _acls_of(cluster, who)}
    if missing := required - existing:
        access_admin.add_acls(cluster, sorted(missing))
    for old in sorted(existing - required):
        access_admin.remove_acls(cluster, AclFilter(*old))
    access_admin.set_passwords(cluster, passwords)


def _acls_of(cluster: Cluster, principal: str) -> list[Acl]:
    return access_admin.list_acls(cluster, AclFilter(principal=principal))


def _topic(principal: str, name: str, *operations: str, prefixed: bool = False) -> list[Acl]:
    return [Acl("topic", name, principal, one, prefixed=prefixed) for one in operations]


def _groups(principal: str, *names: str) -> list[Acl]:
    """For readers that join no group: the library looks the coordinator of their group up anyway."""
    return [Acl("group", name, principal, "describe") for name in names]


def _deny(principal: str, topic: str, prefix: str = "") -> list[Acl]:
    """Deny writing to a topic of another component, and to all with a prefix."""
    found = [Acl("topic", topic, principal, "write", allow=False)]
    if prefix:
        found.append(Acl("topic", prefix, principal, "write", allow=False, prefixed=True))
    return found
