"""Two brokers as one cluster that lets not everybody in: passwords, certificates and lists of who may what.

Each listens four times: plainly (whoever comes there may do all), with a password, by TLS, and with both.
"""

from __future__ import annotations

import datetime
import ipaddress
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from distributary.config.embedded_defaults import HOST
from distributary.config.sections import Kafka
from distributary.kafka import librdkafka
from distributary.kafka.embedded_broker import Broker, new_cluster_id
from distributary.setup import jars, java
from tests.support.clock import LIMIT
from tests.support.processes import suspend
from tests.support.servers import free_port

LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
PASSWORDS = {"ann": "ann-secret", "bob": "bob-secret"}
"""Users by SASL/PLAIN; neither may do anything until a list says so."""


class SecuredCluster:
    """Broker 1, which is the controller too, and broker 2; nothing of them is kept."""

    def __init__(self, folder: Path) -> None:
        self._certificates = folder / "server.pem"
        self.ca = folder / "ca.pem"
        """The certificate that the brokers' is signed by."""
        self.strange_ca = folder / "strange-ca.pem"
        """Another one, which has signed nothing."""
        _certify(self.ca, self._certificates)
        _certify(self.strange_ca, folder / "strange.pem")
        self._ports = {number: {name: free_port() for name in LISTENERS} for number in (1, 2)}
        self._controller = free_port()
        self._brokers = {number: self._broker(folder / str(number), number) for number in (1, 2)}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def address(self, listener: str = "PLAINTEXT", brokers: Sequence[int] = (1, 2)) -> str:
        """Where clients connect by one of `LISTENERS`."""
        return ",".join(f"{HOST}:{self._ports[number][listener]}" for number in brokers)

    @property
    def kafka(self) -> Kafka:
        """The cluster for who may do all."""
        return Kafka(bootstrap_servers=self.address())

    def admin(self) -> AdminClient:
        """A client that may do all."""
        return librdkafka.admin(self.kafka)

    def start(self) -> None:
        """Start both and wait until both serve."""
        cluster = new_cluster_id()
        for number, broker in self._brokers.items():
            self._format(broker, cluster, number)
            java, *rest = broker.command()
            # A short life: compiled quickly rather than well.
            self._processes[number] = subprocess.Popen(
                [java, "-XX:TieredStopAtLevel=1", "-Xshare:auto", *rest],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
            )
        self._until({1, 2})

    def stop(self) -> None:
        """End both at once: there is nothing to keep."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    @contextmanager
    def without(self, number: int) -> Iterator[None]:
        """One broker is silent meanwhile, and the other has noticed."""
        process = self._processes[number]
        suspend(process.pid)
        try:
            self._until({1, 2} - {number})
            yield
        finally:
            process.send_signal(signal.SIGCONT)
            self._until({1, 2})

    def _until(self, wanted: set[int]) -> None:
        admin, deadline = self.admin(), time.monotonic() + 60 * LIMIT
        while True:
            try:
                if set(admin.list_topics(timeout=1).brokers) == wanted:
                    return
            except Exception:
                if time.monotonic() > deadline:
                    raise
            assert time.monotonic() < deadline, f"the brokers are not {wanted}"
            time.sleep(0.05)

    def _broker(self, folder: Path, number: int) -> Broker:
        port = self._ports[number]["PLAINTEXT"]
        kafka_jars, runtime = jars.ensure("kafka"), java.find().path
        return Broker(
            folder, folder / "kafka.log", runtime, kafka_jars, port, self._controller, number, "256m"
        )

    def _format(self, broker: Broker, cluster: str, number: int) -> None:
        """Write what Kafka's tool would, which is a JVM's start for three lines."""
        data = broker.folder / "data"
        data.mkdir(parents=True)
        (data / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster}\nnode.id={number}\ndirectory.id={new_cluster_id()}\n"
        )
        assert broker.prepare() == []
        with (broker.folder / "server.properties").open("a") as properties:
            properties.write(self._more(number))

    def _more(self, number: int) -> str:
        addresses = [f"{name}://{HOST}:{port}" for name, port in self._ports[number].items()]
        listeners = [*addresses, f"CONTROLLER://{HOST}:{self._controller}"] if number == 1 else addresses
        protocols = [f"{name}:{name}" for name in LISTENERS]
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        rows = {
            "process.roles": "broker,controller" if number == 1 else "broker",
            "controller.quorum.voters": f"1@{HOST}:{self._controller}",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(addresses),
            "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": "PLAIN",
            **{
                f"listener.name.{name}.plain.sasl.jaas.config": (
                    f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
                )
                for name in ("sasl_plaintext", "sasl_ssl")
            },
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._certificates,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
        }
        return "".join(f"{name}={value}\n" for name, value in rows.items())


def _certify(ca: Path, server: Path) -> None:
    """Write a certificate that signs, and one that it signed for this machine with its key."""
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("tests", "broker")]
    texts = []
    for key, name, signs in zip(keys, names, (True, False), strict=True):
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False
            )
            .sign(keys[0], hashes.SHA256())
        )
        texts.append(made.public_bytes(serialization.Encoding.PEM))
    secret = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    ca.write_bytes(texts[0])
    server.write_bytes(secret + texts[1])
