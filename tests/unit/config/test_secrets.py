from __future__ import annotations

import time
from pathlib import Path

import pytest

from distributary.config import Auth, Kafka, Spark, Store, load
from distributary.config.secrets import is_secret, mask_property, mask_text
from distributary.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:hunter2@h:6379/0", "redis://:***@h:6379/0"),
        ("rediss://user:hunter2@h", "rediss://user:***@h"),
        ("redis://user:hun/t@er2@h:1", "redis://user:***@h:1"),
        ("unix:///run/r.sock?password=hunter2&db=1", "unix:///run/r.sock?password=***&db=1"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("plain text", "plain text"),
    ],
)
def test_passwords_in_urls_are_masked(url: str, shown: str) -> None:
    assert mask_text(url) == shown


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.jaas.config", "ssl.key.password", "sasl.oauthbearer.client.secret", "SSL.Keystore.PASSWORD"),
        *("ssl.key.pem", "api.key", "x.apikey", "spark.ssl.keyPassword", "sasl.oauthbearer.config"),
        *("spark.hadoop.fs.s3a.secret.key", "spark.kubernetes.authenticate.oauthToken"),
    ],
)
def test_secret_properties_are_masked(name: str) -> None:
    assert is_secret(name)
    for value in ("hunter2", "12345678", "HUNTER"):
        assert mask_property(name, value) == "***"


@pytest.mark.parametrize(
    "name", ["spark.hadoop.fs.azure.account.key.a.blob.core.windows.net", "bearer.auth", "vendor.thing", "x"]
)
def test_unknown_property_is_masked(name: str) -> None:
    assert mask_property(name, "hunter2") == "***"


def test_private_key_is_masked_under_any_name() -> None:
    assert mask_property("ssl.keystore.location", "-----BEGIN PRIVATE KEY-----\nhunter2") == "***"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security.protocol", "SASL_SSL"),
        ("ssl.truststore.location", "/etc/kafka/trust.pem"),
        ("sasl.mechanism", "SCRAM-SHA-256"),
        ("client.id", "distributary"),
        ("spark.ui.enabled", "true"),
        ("spark.executor.memory", "4g"),
        ("linger.ms", "5"),
        ("whatever.it.is", "30 s"),
        ("bootstrap.servers", "kafka-1:9092,kafka-2:9092"),
        ("anything", ""),
    ],
)
def test_harmless_properties_are_shown(name: str, value: str) -> None:
    assert mask_property(name, value) == value


def test_repr_of_sections_and_config_hides_secrets(tmp_path: Path) -> None:
    assert "hunter2" not in repr(Store(url="redis://:hunter2@h"))
    assert "hunter2" not in repr(Kafka(properties={"sasl.jaas.config": "x hunter2"}))
    assert "hunter2" not in repr(Spark(properties={"spark.a.password": "hunter2"}))
    old = Auth(hmac_secret="hunter2" * 8, previous_hmac_secrets=("hunter2" * 8,))
    assert "hunter2" not in repr(old)
    assert repr(old).count("***") == 2
    file = tmp_path / "d.toml"
    file.write_text('[store]\nurl = "redis://:hunter2@h"\n[kafka.properties]\nssl.key.password = "hunter2"\n')
    config = load(file, {})
    assert config.store.url == "redis://:hunter2@h"
    assert config.kafka.properties == {"ssl.key.password": "hunter2"}
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(config.effective())


@pytest.mark.parametrize("url", ["http://:hunter2@h", "redis://:hunter2@", "redis://:hunter2@h:port"])
def test_errors_do_not_repeat_secrets(tmp_path: Path, url: str) -> None:
    file = tmp_path / "d.toml"
    file.write_text(f'[store]\nurl = "{url}"\n')
    with pytest.raises(ConfigError, match=r"store\.url") as caught:
        load(file, {})
    assert "hunter2" not in str(caught.value)
    file.write_text("")
    with pytest.raises(ConfigError, match="DISTRIBUTARY_STORE_URL") as caught:
        load(file, {"DISTRIBUTARY_STORE_URL": url})
    assert "hunter2" not in str(caught.value)


def test_long_string_is_masked_quickly() -> None:
    began = time.process_time()
    assert mask_text("a" * 200_000) == "a" * 200_000
    assert time.process_time() - began < 1
