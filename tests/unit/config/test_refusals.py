# ruff: noqa: E501 - a message stands in one piece, as the user sees it
"""Every error that is reported, with the line that the user sees."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable

import pytest

from distributary.config.problems import nearest
from distributary.errors import ConfigError, Problem

Refuse = Callable[..., list[str]]

FEED = '[[feeds]]\nname = "odds"\ntopic = "o"\n'
TICKS = '[[feeds]]\nname = "ticks"\ntopic = "t"\n'
VIEW = FEED + '[[views]]\nname = "odds"\nfeed = "odds"\n'  # the next line is 7


def test_error_names_file_line_and_closest_key(refuse_text: Refuse) -> None:
    assert refuse_text(VIEW + 'reduec = "merge"') == [
        'distributary.toml:7: views.odds.reduec: unknown key (did you mean "reduce"?)'
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[kafak]", '1: kafak: unknown section (did you mean "kafka"?)'),
        ("[[view]]", '1: view: unknown section (did you mean "views"?)'),
        ('datadir = "x"', '1: datadir: unknown key (did you mean "data_dir"?)'),
        ("[naming]\nxyz = 1", "2: naming.xyz: unknown key (known: topics, groups)"),
        ("kafka = 1", "1: kafka: expected a section: [kafka]"),
        ("[views]\nname = 1", "1: views: expected tables: write [[views]]"),
        ('[kafka]\nport = "1"', '2: kafka.port: expected an integer, got the string "1"'),
        ("[kafka]\nport = true", "2: kafka.port: expected an integer, got true"),
        ("[kafka]\nport = 70000", "2: kafka.port: expected 1 to 65535, got 70000"),
        ("[kafka]\nbroker_id = 99", "2: kafka.broker_id: expected 100 to 9999, got 99"),
        ("[kafka]\nmemory = 384", '2: kafka.memory: expected a string such as "512m" or "2g", got 384'),
        ('[kafka]\nmemory = "lots"', '2: kafka.memory: expected memory such as "512m" or "2g", got "lots"'),
        ("[store]\nsubscription_ttl = 0", '2: store.subscription_ttl: expected at least 1 s, got "0 s"'),
        ('[store]\nshards = ["redis://a", ""]', "2: store.shards: expected a string that is not empty, got a string"),
        ('[store]\nurl = "redis://a"\nshards = ["redis://b"]',
         "3: store.shards: cannot be combined with url: set one of the two"),
        ('[store]\nshards = ["redis://:x@a/0", "rediss://A"]',
         "2: store.shards: the server a:6379, database 0 is listed twice"),
        ('[spark]\nengine = "realtine"',
         '2: spark.engine: expected one of auto, realtime, microbatch, got "realtine" (did you mean "realtime"?)'),
        ('[spark]\nenvironment = ["A B"]',
         '2: spark.environment: expected the name of a variable, or a pattern such as "AWS_*", got the string "A B"'),
        ("[publisher]\norigins = [1]", "2: publisher.origins: expected a list of strings, got 1"),
        ('[publisher]\nmax_frame = "1 MB"',
         '2: publisher.max_frame: "mb" is ambiguous (1000 or 1024); write MiB (powers of 1024)'),
        ('[control]\ntls_key = "a"', "2: control.tls_key: requires tls_certificate"),
        ('[kafka]\ntls_certificate = "a"', "2: kafka.tls_certificate: requires secure = true"),
        ('[kafka]\nsecure = true\ntls_key = "a"', "3: kafka.tls_key: requires tls_certificate"),
        ('[gateway]\ntls_client_ca = "a"', "2: gateway.tls_client_ca: requires tls_certificate"),
        ('[control]\ntrusted_proxies = ["proxy"]', '2: control.trusted_proxies: expected an address or a network such as "10.0.0.7" or "10.0.0.0/8", got the string "proxy"'),
        ("[publisher]\nport = 8080", "2: publisher.port: port 8080 is also used by control.port"),
        ("[publisher]\nport = 81\n[control]\nport = 81", "4: control.port: port 81 is also used by publisher.port"),
        ("[kafka]\nbootstrap.servers = 'a:1'\nbootstrap_servers = 'a:1'",
         "3: kafka.bootstrap_servers: set twice, in two spellings"),
        ("[kafka]\nbootstrap.serves = 'a:1'",
         '2: kafka.bootstrap.serves: unknown key (did you mean "bootstrap_servers"?)'),
        ("[kafka]\nbootstrap_servers = 'a'",
         '2: kafka.bootstrap_servers: expected addresses such as "host:9092" or "a:9092,b:9092", got the string "a"'),
        ("[kafka.properties]\nbootstrap.servers = 'a:1'",
         "2: kafka.properties.bootstrap.servers: cannot be set here: use kafka.bootstrap_servers"),
        ("[kafka]\nproperties = { 'group.id' = 'g' }",
         "2: kafka.properties.group.id: cannot be set here: each client sets its own value"),
        ("[kafka]\nproperties = { 'isolation.level' = 'read_uncommitted' }",
         '2: kafka.properties.isolation.level: cannot be "read_uncommitted": exactness requires "read_committed"; '
         "remove it"),
        ("[kafka]\nproperties = { acks = 1 }",
         '2: kafka.properties.acks: cannot be "1": exactness requires "all"; remove it'),
        ("[kafka]\nproperties = { 'enable.idempotence' = false }",
         '2: kafka.properties.enable.idempotence: cannot be "false": exactness requires "true"; remove it'),
        ("[spark]\nproperties = { 'spark.speculation' = true }",
         '2: spark.properties.spark.speculation: cannot be "true": exactness requires "false"; remove it'),
        (VIEW + "replay = true\nttl = 5", "7: views.odds.replay: requires a view whose row never expires: remove ttl, or replay"),
        (VIEW + 'replay = true\nkey = "id"', "7: views.odds.replay: requires a view whose row has the key of its records: remove key, or replay"),
        (VIEW + 'replay = true\nreduce = "a.b:c"',
         '7: views.odds.replay: requires reduce = "latest" or "merge"; this view has reduce = "a.b:c"'),
        (FEED + FEED, "5: feeds.odds.name: duplicate name, first used in line 2"),
        ('[[feeds]]\ntopic = "o"', '1: feeds.1.name: missing; for example name = "odds"'),
        ('[[feeds]]\nname = "odds"', '1: feeds.odds.topic: missing; for example topic = "sportsbook.odds"'),
        ('[[feeds]]\nname = "Odds"\ntopic = "o"',
         "2: feeds.Odds.name: expected a name: a lower-case letter, then up to 62 of a-z 0-9 _ -, "
         'got the string "Odds"'),
        (FEED + '[[views]]\nname = "v"', '4: views.v.feed: missing; for example feed = "odds"'),
        (FEED + '[[views]]\nname = "v"\nfeed = "ods"', '6: views.v.feed: unknown feed "ods" (did you mean "odds"?)'),
        (FEED + 'format = "text"\npublish = true\npublish_key = "a"',
         '6: feeds.odds.publish_key: requires format = "json"; this feed has "text"'),
        (FEED + 'format = "bytes"\nframed = true',
         '5: feeds.odds.framed: requires format = "json"; this feed has "bytes"'),
        (FEED + 'format = "avro"\npublish = true',
         "5: feeds.odds.publish: is not supported for feeds whose records name a schema: use a Kafka producer"),
        (FEED + 'publish = true\nframed = true',
         "4: feeds.odds.publish: is not supported for feeds whose records name a schema: use a Kafka producer"),
        ('[schemas]\nurl = "registry:8081"', '2: schemas.url: expected a URL such as https://registry.example.com, got a string'),
        ('[[views]]\nname = "v"\nfeed = "o"', '3: views.v.feed: unknown feed "o"; add it under [[feeds]]'),
        (VIEW + 'reduce = "aggregate"',
         '7: views.odds.reduce: reduce = "aggregate" requires [views.aggregates], such as total = "sum(stake)"'),
        (VIEW + '[views.aggregates]\nn = "count()"',
         '7: views.odds.aggregates: requires reduce = "aggregate"; this view has reduce = "merge"'),
        (VIEW + 'reduce = "aggregate"\n[views.aggregates]\nn = "count()"\nt = "sum()"',
         "10: views.odds.aggregates.t: sum() requires an expression, such as sum(stake)"),
        (VIEW + 'window = "1 minute"',
         '7: views.odds.window: requires reduce = "aggregate"; this view has reduce = "merge"'),
        (VIEW + 'reduce = "mrege"',
         '7: views.odds.reduce: expected merge, latest, aggregate or a function as "package.module:function", got the string "mrege" (did you mean "merge"?)'),
        (VIEW + 'reduce = "m:f"\nevents = "ods"\nreduce_events = "m:g"',
         '8: views.odds.events: unknown feed "ods" (did you mean "odds"?)'),
        (VIEW + 'reduce = "m:f"\nevents = "odds"\nreduce_events = "m:g"',
         "8: views.odds.events: is the feed of the view: events must come from another feed"),
        (TICKS + VIEW + 'reduce = "m:f"\nevents = "ticks"',
         '11: views.odds.events: requires reduce_events, such as reduce_events = "rules:tick"'),
        (TICKS + VIEW + 'events = "ticks"\nreduce_events = "m:g"',
         '10: views.odds.events: requires a function as reduce; this view has reduce = "merge"'),
        (VIEW + 'reduce = "m:f"\nreduce_events = "m:g"',
         '8: views.odds.reduce_events: requires events = "…", the feed whose records it folds'),
        (VIEW + 'reduce_events = "merge"',
         '7: views.odds.reduce_events: expected a function as "package.module:function", got the string "merge"'),
        (VIEW + 'start = "noon"',
         '7: views.odds.start: expected "earliest", "now" or an ISO 8601 time such as "2026-01-31T08:00:00Z"'),
        (VIEW + 'ttl = "1 parsec"',
         '7: views.odds.ttl: expected a duration such as 30, "500 ms", "30 s", "5 minutes" or "1h"'),
    ],
)  # fmt: skip
def test_each_error_is_one_line(refuse_text: Refuse, text: str, said: str) -> None:
    assert refuse_text(text) == [f"distributary.toml:{said}"]


def test_all_errors_are_reported_in_the_order_of_the_file(refuse_text: Refuse) -> None:
    text = "[stroe]\n[kafka]\nprot = 1\nport = 0\n" + VIEW + 'tll = 1\nwindow = "x"\n'
    lines = refuse_text(text, {"DISTRIBUTARY_STORE_PORT": "x"})
    assert [line.split(": ")[:2] for line in lines] == [
        ["distributary.toml:1", "stroe"],
        ["distributary.toml:3", "kafka.prot"],
        ["distributary.toml:4", "kafka.port"],
        ["distributary.toml:11", "views.odds.tll"],
        ["distributary.toml:12", "views.odds.window"],
        ["environment", "DISTRIBUTARY_STORE_PORT"],
    ]


def test_invalid_feed_is_not_reported_again_for_its_views(refuse_text: Refuse) -> None:
    lines = refuse_text('[[feeds]]\nname = "odds"\n[[views]]\nname = "v"\nfeed = "odds"\n')
    assert len(lines) == 1
    assert "feeds.odds.topic" in lines[0]


@pytest.mark.parametrize(
    ("text", "line"), [("[kafka]\nport = ", 2), ("a = 1\na = 2", 2), ("[kafka\n", 1), ('x = """\n\n', 2)]
)
def test_syntax_error_has_its_line(refuse_text: Refuse, text: str, line: int) -> None:
    lines = refuse_text(text)
    assert len(lines) == 1
    assert lines[0].startswith(f"distributary.toml:{line}: invalid TOML: ")
    assert "at line" not in lines[0]


def test_error_has_problems_and_survives_pickling(load_text: Callable[..., object]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text("[kafka]\nprot = 1")
    assert caught.value.code == "config"
    assert caught.value.problems == (Problem("unknown key", "kafka.prot", "distributary.toml", 2, "port"),)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.message, again.problems) == (caught.value.message, caught.value.problems)


def test_long_word_is_not_compared() -> None:
    began = time.process_time()
    assert nearest("views" * 20_000, ["views", "view"]) == ""
    assert time.process_time() - began < 1


@pytest.mark.parametrize("pattern", ["(" * 5_000, "a{99999999999999999999}"])
def test_pattern_that_cannot_be_compiled_is_reported(refuse_text: Refuse, pattern: str) -> None:
    (line,) = refuse_text(f'[naming]\ntopics = "{pattern}"\n')
    assert "expected a regular expression" in line


def test_variable_that_is_nested_too_deeply_is_reported(refuse_text: Refuse) -> None:
    (line,) = refuse_text("", {"DISTRIBUTARY_KAFKA_PROPERTIES": '{"a":' * 100_000})
    assert "nested too deeply" in line
