from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from distributary.config import Config
from distributary.config.settings_table import SETTINGS

Load = Callable[..., Config]
Refuse = Callable[..., list[str]]

FILE = """
[[topics]]
name = "my-odds"
[[feeds]]
name = "my-odds"
topic = "o"
[[feeds]]
name = "my-ticks"
topic = "t"
[[views]]
name = "my-odds"
feed = "my-odds"
"""

TEXTS = {
    "duration": "7 s",
    "size": "8k",
    "memory": "2g",
    "boolean": "yes",
    "start": "now",
    "table": '{"a": "count()"}',
    "list": "https://a.example, https://b.example",
}
BY_KEY = {
    "feed": "my-odds",
    "url": "redis://h:1",
    "hosts": "a.example, b.example",
    "tls_certificate": "/tls/a.pem",
    "tls_key": "/tls/a.pem",
    "tls_client_ca": "/tls/a.pem",
    "trusted_proxies": "10.0.0.0/8, ::1",
    "shards": "redis://h:1, redis://h:2",
    "advertised_url": "wss://h",
    "gateway.advertised_url": "https://h",
    "schemas.url": "https://h",
    "master": "local[2]",
    "bootstrap_servers": "h:1",
    "reduce": "aggregate",
    "events": "my-ticks",
    "reduce_events": "m:g",
    "broker_id": "103",
    "hmac_secret": "0123456789abcdef0123456789abcdef",
    "previous_hmac_secrets": "0123456789abcdef0123456789abcdef",
    "jwks_url": "https://h/keys",
    "routes": '{"a": "n > 1"}',
    "spark.environment": "AWS_*,X",
    "keys": '{"a": {"hash": "sha256:' + "0" * 64 + '"}}',
}


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.name != "name"], ids=lambda s: s.key)
def test_every_setting_can_be_set_by_environment(load_text: Load, setting: Any) -> None:
    text = BY_KEY.get(setting.key) or BY_KEY.get(setting.name) or TEXTS.get(setting.info.kind)
    text = text or (
        setting.info.choices[-1]
        if setting.info.choices
        else "12"
        if setting.info.kind == "integer"
        else "abc"
    )
    env = {setting.env_of("my-odds"): text}
    if setting.name in ("tls_key", "tls_client_ca"):  # what goes with a certificate only
        env[f"DISTRIBUTARY_{setting.section.upper()}_TLS_CERTIFICATE"] = "/tls/a.pem"
    if setting.key.startswith("kafka.tls"):  # what goes with passwords only
        env["DISTRIBUTARY_KAFKA_SECURE"] = "true"
    if setting.name in ("events", "reduce_events"):  # what goes with functions only
        for name, value in (("REDUCE", "m:f"), ("EVENTS", "my-ticks"), ("REDUCE_EVENTS", "m:g")):
            env[f"DISTRIBUTARY_VIEWS_MY_ODDS_{name}"] = value
    elif setting.section == "views" and setting.name != "replay":  # what goes with aggregates only
        env.setdefault("DISTRIBUTARY_VIEWS_MY_ODDS_REDUCE", "aggregate")
        env.setdefault("DISTRIBUTARY_VIEWS_MY_ODDS_AGGREGATES", "n=count()")
    rows = {row.key: row for row in load_text(FILE, env).effective()}
    key = setting.key_of("my-odds") + (".a" if setting.info.kind == "table" else "")
    assert rows[key].origin.kind == "environment"
    if setting.info.kind in ("text", "memory", "start") and setting.section:
        assert rows[key].value == ("***" if setting.info.hidden else text)


def test_environment_overrides_file_and_options_override_both(load_text: Load) -> None:
    file, env = "[control]\nport = 1\n", {"DISTRIBUTARY_CONTROL_PORT": "2"}
    assert load_text(file).control.port == 1
    assert load_text(file, env).control.port == 2
    assert load_text(file, env, control__port="3").control.port == 3


def test_variable_adds_entries_to_a_table(load_text: Load) -> None:
    file = '[kafka.properties]\na = "1"\nb = "1"\n'
    env = {"DISTRIBUTARY_KAFKA_PROPERTIES": "b=2, c=x=(1,2)"}
    assert load_text(file, env).kafka.properties == {"a": "1", "b": "2", "c": "x=(1,2)"}


def test_variable_can_unset_an_optional_setting(load_text: Load) -> None:
    file = FILE + 'ttl = "1h"\nwhere = "a"\n'
    env = {"DISTRIBUTARY_VIEWS_MY_ODDS_TTL": "never", "DISTRIBUTARY_VIEWS_MY_ODDS_WHERE": ""}
    view = load_text(file, env).views[0]
    assert (view.ttl, view.where) == (None, None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("DISTRIBUTARY_KAFKA_PROT", 'matches no setting (did you mean "DISTRIBUTARY_KAFKA_PORT"?)'),
        (
            "DISTRIBUTARY_VIEWS_MY_ODS_TTL",
            'matches no setting (did you mean "DISTRIBUTARY_VIEWS_MY_ODDS_TTL"?)',
        ),
        ("DISTRIBUTARY_CONTROL_PORT", 'expected an integer, got the string "x"'),
        ("DISTRIBUTARY_FEEDS_MY_ODDS_CREATE", 'expected true or false, got the string "x"'),
        ("DISTRIBUTARY_KAFKA_PROPERTIES", "expected a JSON object, or name=value pairs separated by commas"),
    ],
)
def test_invalid_variable_is_reported(refuse_text: Refuse, name: str, message: str) -> None:
    assert refuse_text(FILE, {name: "x"}) == [f"environment: {name}: {message}"]


def test_variable_cannot_change_the_name_of_a_view(refuse_text: Refuse) -> None:
    (line,) = refuse_text(FILE, {"DISTRIBUTARY_VIEWS_MY_ODDS_NAME": "x"})
    assert "matches no setting" in line


def test_variables_that_are_not_settings_are_ignored(load_text: Load) -> None:
    names = ["CACHE", "STORE_SERVER", "CONFIG", "STACK", "IVY_SETTINGS", "TEST_X", "FAULT_Y"]
    env = {f"DISTRIBUTARY_{name}": "x" for name in names} | {"PATH": "x", "DISTRIBUTARYX": "x"}
    env["DISTRIBUTARY_CONFIG"] = "distributary.toml"
    assert load_text("", env).origins == {}


def test_variable_that_matches_two_views_is_ambiguous(refuse_text: Refuse, load_text: Load) -> None:
    file = FILE + '[[views]]\nname = "my_odds"\nfeed = "my-odds"\n'
    (line,) = refuse_text(file, {"DISTRIBUTARY_VIEWS_MY_ODDS_TTL": "1h"})
    assert "may refer to views.my-odds.ttl and views.my_odds.ttl" in line
    assert load_text(file).view("my_odds").ttl is None


def test_invalid_option_is_reported(refuse_text: Refuse) -> None:
    assert refuse_text("", control__prot="1") == [
        'option: control.prot: matches no setting (did you mean "control.port"?)'
    ]
