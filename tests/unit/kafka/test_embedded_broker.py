"""What the embedded broker is started with."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from distributary.errors import ConfigError, DataFolderError
from distributary.httpd import dev_certificates
from distributary.kafka.broker_security import BrokerSecurity, pem_keystore
from distributary.kafka.embedded_broker import Broker, new_cluster_id


def broker(folder: Path, broker_id: int = 101) -> Broker:
    return Broker(
        folder, folder / "kafka.log", Path("/java"), Path("/jars"), 1111, 2222, broker_id, memory="300m"
    )


def properties(folder: Path) -> dict[str, str]:
    lines = (folder / "server.properties").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_settings_forbid_automatic_topics_and_need_one_node_only(tmp_path: Path) -> None:
    broker(tmp_path).prepare()
    rows = properties(tmp_path)
    assert rows["auto.create.topics.enable"] == "false"
    assert rows["delete.topic.enable"] == "true"
    assert rows["process.roles"] == "broker,controller"
    assert rows["listeners"] == "PLAINTEXT://127.0.0.1:1111,CONTROLLER://127.0.0.1:2222"
    factors = {value for name, value in rows.items() if name.endswith(("replication.factor", "min.isr"))}
    assert factors == {"1"}


def test_broker_is_formatted_once_and_keeps_its_cluster_id(tmp_path: Path) -> None:
    built = broker(tmp_path)
    assert built.cluster_id() is None
    (command,) = built.prepare()
    assert "kafka.tools.StorageTool" in command
    meta = "#\nversion=1\nnode.id=101\ncluster.id=abc\n"
    (tmp_path / "data" / "meta.properties").write_text(meta)
    assert built.prepare() == []
    assert built.cluster_id() == "abc"
    assert "-Xmx300m" in built.command()


def test_another_broker_id_over_the_same_data_is_refused(tmp_path: Path) -> None:
    broker(tmp_path).prepare()
    (tmp_path / "data" / "meta.properties").write_text("node.id=101\ncluster.id=abc\n")
    with pytest.raises(DataFolderError, match=r"broker_id is 102, .* created by broker 101"):
        broker(tmp_path, 102).prepare()


def test_folders_with_odd_names_are_escaped_for_java(tmp_path: Path) -> None:
    odd = tmp_path / "naïve & \\ <dir>"
    broker(odd).prepare()
    assert properties(odd)["log.dirs"] == str(odd / "data").replace("\\", "\\\\").replace("ï", "\\u00ef")
    appender = ElementTree.parse(odd / "log4j2.xml").find("./Appenders/RollingFile")
    assert appender is not None
    assert appender.get("fileName") == str(odd / "kafka.log")


def test_cluster_id_has_kafkas_form() -> None:
    ids = {new_cluster_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", one) for one in ids)


def test_broker_without_security_has_no_passwords(tmp_path: Path) -> None:
    broker(tmp_path).prepare()
    rows = properties(tmp_path)
    assert not [name for name in rows if "sasl" in name or "authorizer" in name]
    assert broker(tmp_path).own.properties == {}


def test_secure_broker_requires_scram_and_denies_by_default(tmp_path: Path) -> None:
    built = replace(broker(tmp_path), security=BrokerSecurity(3333, "hush"))
    (command,) = built.prepare()
    rows = properties(tmp_path)
    assert rows["listeners"].split(",")[0] == "CLIENT://127.0.0.1:1111"
    assert set(rows["listener.security.protocol.map"].split(",")) == {
        f"{name}:SASL_PLAINTEXT" for name in ("CLIENT", "INTERNAL", "CONTROLLER")
    }
    assert rows["listener.name.client.sasl.enabled.mechanisms"] == "SCRAM-SHA-512"
    assert rows["authorizer.class.name"].endswith(".StandardAuthorizer")
    assert rows["allow.everyone.if.no.acl.found"] == "false"
    assert rows["super.users"] == "User:distributary"
    assert (tmp_path / "server.properties").stat().st_mode & 0o777 == 0o600
    assert "hush" not in " ".join([*command, *built.command(), repr(built)])
    assert built.own.bootstrap_servers == "127.0.0.1:3333"
    assert "hush" not in repr(built.own)


def test_secure_broker_uses_its_certificate_for_clients_only(tmp_path: Path) -> None:
    built = replace(broker(tmp_path), security=BrokerSecurity(3333, "hush", tmp_path / "kafka-tls.pem"))
    built.prepare()
    rows = (built.folder / "server.properties").read_text().splitlines()
    assert (
        "listener.security.protocol.map=CLIENT:SASL_SSL,INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
        in rows
    )
    assert f"listener.name.client.ssl.keystore.location={tmp_path / 'kafka-tls.pem'}" in rows


def test_keystore_has_the_key_and_the_chain(tmp_path: Path) -> None:
    dev_certificates.create_ca(tmp_path)
    dev_certificates.create_server(tmp_path, ["localhost"])
    certificate, key = tmp_path / "server.pem", tmp_path / "server-key.pem"
    found = pem_keystore(str(certificate), str(key))
    assert found.startswith("-----BEGIN PRIVATE KEY-----")
    assert certificate.read_text().split("-----END")[0] in found
    (tmp_path / "both.pem").write_text(found)
    assert pem_keystore(str(tmp_path / "both.pem"), "") == found


@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        ("nothing.pem", "server-key.pem", "tls_certificate: cannot read .*nothing.pem"),
        ("server.pem", "nothing.pem", "tls_key: cannot read .*nothing.pem"),
        ("server.pem", "", "tls_certificate: .*server.pem is not a valid PEM"),
        ("server-key.pem", "server-key.pem", "tls_certificate: .*is not a valid PEM"),
        ("server.pem", "ca-key.pem", "is not the key of"),
    ],
)
def test_invalid_keystore_files_are_refused(tmp_path: Path, certificate: str, key: str, message: str) -> None:
    dev_certificates.create_ca(tmp_path)
    dev_certificates.create_server(tmp_path, ["localhost"])
    with pytest.raises(ConfigError, match=message):
        pem_keystore(str(tmp_path / certificate), str(tmp_path / key) if key else "")
