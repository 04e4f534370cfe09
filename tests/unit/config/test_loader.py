from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from distributary.config import EXAMPLE, Auth, Config, Origin, load, parse_views
from distributary.errors import ConfigError, ConfigMissing
from distributary.model.feed import Feed
from distributary.model.view import View

Load = Callable[..., Config]

FEED = '[[feeds]]\nname = "odds"\ntopic = "sportsbook.odds"\n'
VIEW = '[[views]]\nname = "odds"\nfeed = "odds"\n'


def test_example_file_is_loaded(load_text: Load) -> None:
    config = load_text(EXAMPLE)
    assert config.feeds == (Feed("odds", "sportsbook.odds", "json"),)
    assert config.views == (View("odds", "odds", key="market_id", where="price > 1.0", reduce="merge"),)
    assert config.feed("odds").topic == "sportsbook.odds"
    assert config.view("odds").key == "market_id"
    assert config.data_dir == Path.cwd() / ".distributary"
    assert config.path == Path.cwd() / "distributary.toml"


def test_empty_file_gives_all_defaults(load_text: Load) -> None:
    assert load_text("") == Config(
        data_dir=Path.cwd() / ".distributary", path=Path.cwd() / "distributary.toml"
    )


def test_values_of_every_kind_are_loaded(load_text: Load) -> None:
    config = load_text(
        f"""
        data_dir = "state"
        [kafka]
        memory = "1G"
        start_timeout = "2 minutes"
        [spark]
        batch_duration = 60
        engine = "microbatch"
        [spark.properties]
        spark.ui.enabled = false
        "spark.task.maxFailures" = 3
        [publisher]
        queue_bytes = "2 MiB"
        origins = ["https://a.example", "*"]
        {FEED}
        create = true
        [[views]]
        name = "stakes"
        feed = "odds"
        reduce = "aggregate"
        window = "1 minute"
        late = "10 s"
        ttl = "never"
        start = 2026-05-01T08:00:00Z
        [views.aggregates]
        total = "sum(stake)"
        n = "count(*)"
        """
    )
    assert config.data_dir == Path.cwd() / "state"
    assert (config.kafka.memory, config.kafka.start_timeout) == ("1g", 120.0)
    assert (config.spark.batch_duration, config.spark.engine) == (60.0, "microbatch")
    assert config.spark.properties == {"spark.ui.enabled": "false", "spark.task.maxFailures": "3"}
    assert config.publisher.queue_bytes == 2 << 20
    assert config.publisher.origins == ("https://a.example", "*")
    assert config.feeds[0].create is True
    assert config.views[0] == View(
        "stakes",
        "odds",
        reduce="aggregate",
        aggregates={"total": "sum(stake)", "n": "count(*)"},
        window=60.0,
        late=10.0,
        ttl=None,
        start="2026-05-01T08:00:00+00:00",
    )


@pytest.mark.parametrize(
    "line",
    ['bootstrap_servers = "a:1, b:2"', '"bootstrap.servers" = "a:1,b:2"', 'bootstrap.servers = "a:1,b:2"'],
)
def test_bootstrap_servers_has_two_spellings(load_text: Load, line: str) -> None:
    assert load_text(f"[kafka]\n{line}\n").kafka.bootstrap_servers == "a:1,b:2"


def test_reduce_rule_may_be_a_function(load_text: Load) -> None:
    assert load_text(FEED + VIEW + 'reduce = "my.rules:fold"').views[0].reduce == "my.rules:fold"


def test_config_survives_pickling(load_text: Load) -> None:
    config = load_text(EXAMPLE + '[kafka.properties]\na = "b"\n')
    assert pickle.loads(pickle.dumps(config)) == config


def test_path_environment_and_working_folder_select_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, port in (("distributary", 1), ("named", 2), ("given", 3)):
        Path(f"{name}.toml").write_text(f"[control]\nport = {port}\n")
    assert load(env={}).control.port == 1
    assert load(env={"DISTRIBUTARY_CONFIG": "named.toml"}).control.port == 2
    assert load(Path("given.toml"), {"DISTRIBUTARY_CONFIG": "named.toml"}).control.port == 3


def test_tls_files_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "distributary.toml"
    file.parent.mkdir()
    file.write_text('[control]\ntls_certificate = "tls/a.pem"\ntls_key = "/etc/a.key"\n')
    control = load(file, {}).control
    assert control.tls_certificate == str(tmp_path / "deep" / "tls" / "a.pem")
    assert (control.tls_key, control.tls_client_ca) == ("/etc/a.key", "")
    assert (control.http_scheme, control.websocket_scheme) == ("https", "wss")
    assert (load(file, {}).gateway.http_scheme, load(file, {}).gateway.websocket_scheme) == ("http", "ws")


def test_data_dir_is_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "d.toml"
    file.parent.mkdir()
    file.write_text("")
    assert load(file, {}).data_dir == tmp_path / "deep" / ".distributary"
    assert load(file, {"DISTRIBUTARY_DATA_DIR": "/var/x"}).data_dir == Path("/var/x")


def test_missing_file_error_shows_its_path_and_an_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigMissing) as caught:
        load(env={})
    assert str(tmp_path / "distributary.toml") in caught.value.message
    assert "DISTRIBUTARY_CONFIG" in caught.value.hint
    assert EXAMPLE in caught.value.hint
    assert isinstance(caught.value, ConfigError)


def test_only_the_default_file_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load(env={"DISTRIBUTARY_CONTROL_PORT": "81"}, required=False)
    assert (config.path, config.control.port, config.data_dir) == (None, 81, tmp_path / ".distributary")
    with pytest.raises(ConfigMissing):
        load(Path("x.toml"), {}, required=False)
    with pytest.raises(ConfigMissing):
        load(env={"DISTRIBUTARY_CONFIG": "x.toml"}, required=False)


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path, {})
    file = tmp_path / "d.toml"
    file.write_bytes(b"a = \xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(file, {})


def test_unknown_feed_or_view_is_reported_with_the_closest_name(load_text: Load) -> None:
    config = load_text(EXAMPLE)
    with pytest.raises(ConfigError) as caught:
        config.view("ods")
    assert caught.value.hint == 'Did you mean "odds"?'
    with pytest.raises(ConfigError, match='unknown feed "zzz"'):
        config.feed("zzz")


def test_effective_settings_have_their_origin(load_text: Load) -> None:
    text = f'[kafka]\nport = 1\n[kafka.properties]\na.b = "1"\nc = "1"\n{FEED}'
    env = {"DISTRIBUTARY_STORE_PORT": "2", "DISTRIBUTARY_KAFKA_PROPERTIES": "c=2"}
    rows = {row.key: row for row in load_text(text, env, control__port="3").effective()}
    assert rows["kafka.port"].origin == Origin("file", "distributary.toml:2")
    assert rows["kafka.properties.a.b"].origin == Origin("file", "distributary.toml:4")
    assert rows["kafka.properties.c"].origin == Origin("environment", "DISTRIBUTARY_KAFKA_PROPERTIES")
    assert rows["store.port"].origin == Origin("environment", "DISTRIBUTARY_STORE_PORT")
    assert rows["control.port"].origin == Origin("option", "control.port")
    assert rows["publisher.port"].origin == Origin("default")
    assert rows["feeds.odds.topic"].origin == Origin("file", "distributary.toml:8")
    assert (rows["publisher.ping_interval"].text, rows["publisher.ping_interval"].value) == ('"25 s"', 25.0)


def test_parse_views_accepts_toml_and_json() -> None:
    toml = VIEW + 'reduce = "aggregate"\nwindow = "1 minute"\n[views.aggregates]\nn = "count()"\n'
    json = """{"views": [{"name": "odds", "feed": "odds", "reduce": "aggregate", "window": 60, "ttl": null,
               "aggregates": {"n": "count()"}}]}"""
    view = View("odds", "odds", reduce="aggregate", window=60.0, aggregates={"n": "count()"})
    assert parse_views(toml, ["odds"]) == parse_views(json, ["odds"]) == ((), (view,))
    assert parse_views(FEED + VIEW).feeds == (Feed("odds", "sportsbook.odds"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (VIEW, 'v.toml:3: views.odds.feed: unknown feed "odds" (did you mean "odd"?)'),
        ("[kafka]\nport = 1", "v.toml:1: kafka: unknown section (known: feeds, views)"),
        ("", "v.toml: expected [[feeds]] or [[views]]"),
        ("{", "v.toml:1: invalid JSON: Expecting property name enclosed in double quotes"),
        (
            '{"views": [{"name": "a", "feed": "odd", "tll": 1}]}',
            'v.toml: views.a.tll: unknown key (did you mean "ttl"?)',
        ),
        ('{"views": {"name": "a"}}', "v.toml: views: expected tables: write [[views]]"),
        ('{"views": ' + "[" * 100_000, "v.toml: invalid JSON: nested too deeply, or a number is too long"),
    ],
)
def test_parse_views_reports_errors(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_views(text, ["odd"], file="v.toml")
    assert caught.value.message == message


PLAIN = View("plain", "odds", key="id")
FOLDED = View("folded", "odds", key="id", reduce="folds:act", events="ticks", reduce_events="folds:happen")


def test_view_names_its_functions_and_not_built_in_rules() -> None:
    assert PLAIN.functions == ()
    assert FOLDED.functions == ("folds:act", "folds:happen")


@pytest.mark.parametrize(
    ("config", "unlisted"),
    [
        (Config(), ["folds:act", "folds:happen"]),
        (Config(views=(FOLDED,)), []),
        (Config(views=(PLAIN,)), ["folds:act", "folds:happen"]),
        (Config(auth=Auth(functions=("folds:act",))), ["folds:happen"]),
        (Config(auth=Auth(functions=("folds:*",))), []),
        (Config(auth=Auth(functions=("os:*",))), ["folds:act", "folds:happen"]),
    ],
)
def test_functions_are_allowed_by_the_file_and_by_the_list(config: Config, unlisted: list[str]) -> None:
    assert config.unlisted_functions(FOLDED) == unlisted
    assert config.unlisted_functions(PLAIN) == []


EXPOSED_SECRETS = f"""
[store]
url = "redis://:hunter2@h"
[kafka.properties]
"security.protocol" = "SASL_SSL"
"sasl.password" = "hunter2"
"client.note" = "who knows what"
[auth]
hmac_secret = "{"hunter2" * 5}"
"""
EXPOSED_KEYS = ("kafka.properties.sasl.password", "store.url", "auth.hmac_secret")


@pytest.fixture
def exposed_file(tmp_path: Path) -> Path:
    path = tmp_path / "distributary.toml"
    path.write_text(EXPOSED_SECRETS)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize(
    ("mode", "found"), [(0o644, EXPOSED_KEYS), (0o640, EXPOSED_KEYS), (0o604, EXPOSED_KEYS), (0o600, ())]
)
def test_secrets_are_exposed_in_a_file_that_others_can_read(
    exposed_file: Path, mode: int, found: tuple[str, ...]
) -> None:
    exposed_file.chmod(mode)
    assert set(load(exposed_file, env={}).exposed_secrets()) == set(found)


def test_exposed_warning_has_a_command_and_no_secret(exposed_file: Path) -> None:
    warning = load(exposed_file, env={}).exposed_warning()
    assert f"chmod 600 {exposed_file}" in warning
    assert "hunter2" not in warning


def test_secrets_from_the_environment_are_not_exposed(tmp_path: Path) -> None:
    path = tmp_path / "distributary.toml"
    path.write_text('[store]\nurl = "redis://h"\n[auth]\naudience = "x"\n')
    path.chmod(0o644)
    config = load(path, env={"DISTRIBUTARY_AUTH_HMAC_SECRET": "x" * 40})
    assert config.exposed_warning() == ""


def test_nothing_is_exposed_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(env={}, required=False).exposed_secrets() == ()
