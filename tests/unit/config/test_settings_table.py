from __future__ import annotations

import dataclasses
import tomllib

from distributary.config.coerce import convert
from distributary.config.sections import SECTIONS
from distributary.config.settings_table import FEED, GROUPS, SETTINGS, VIEW
from distributary.model.feed import Feed, Topic
from distributary.model.view import View


def test_every_field_of_a_section_feed_topic_and_view_is_a_setting() -> None:
    for name, cls in {**SECTIONS, "topics": Topic, "feeds": Feed, "views": View}.items():
        assert [s.name for s in GROUPS[name]] == [f.name for f in dataclasses.fields(cls)]


def test_defaults_pass_their_own_checks() -> None:
    for setting in SETTINGS:
        if setting.required:
            continue
        raw = list(setting.default) if isinstance(setting.default, tuple) else setting.default
        assert convert(setting, raw) == setting.default, setting.key


def test_examples_are_valid_and_differ_from_the_default() -> None:
    for setting in SETTINGS:
        if setting.info.example:
            raw = tomllib.loads(f"x = {setting.info.example}")["x"]
            assert convert(setting, raw) != setting.default, setting.key


def test_environment_names_are_unique() -> None:
    names = [setting.env for setting in SETTINGS]
    assert len(set(names)) == len(names)
    assert "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS" in names
    assert "DISTRIBUTARY_DATA_DIR" in names
    assert VIEW[0].env_of("my-odds.x") == "DISTRIBUTARY_VIEWS_MY_ODDS_X_NAME"


def test_only_names_feeds_and_topics_are_required() -> None:
    required = [s.key for s in SETTINGS if s.required]
    names = ("topics.name", "feeds.name", "feeds.topic", "views.name", "views.feed")
    assert required == [name.replace(".", ".<name>.") for name in names]
    assert not any(s.required for s in FEED if s.name == "format")


def test_defaults_are_the_documented_ones() -> None:
    agreed = {
        "data_dir": ".distributary",
        "kafka.port": 9092,
        "kafka.broker_id": 101,
        "kafka.memory": "384m",
        "kafka.start_timeout": 60.0,
        "store.log_length": 100_000,
        "spark.batch_duration": 300.0,
        "spark.catchup_lag": 20_000,
        "publisher.port": 8000,
        "publisher.http_port": 8001,
        "publisher.queue_bytes": 1_048_576,
        "publisher.max_frame": 65_536,
        "control.port": 8080,
    }
    have = {setting.key: setting.default for setting in SETTINGS}
    assert {key: have[key] for key in agreed} == agreed
