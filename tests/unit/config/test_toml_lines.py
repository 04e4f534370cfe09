from __future__ import annotations

import pytest

from distributary.config.toml_lines import Lines, Path

TEXT = '''\
top = 1
[kafka] # where
port = 2
bootstrap.servers = "a"
"x.y" = 3
note = """
port = 99
[store]
"""
list = [
  ["store"] # [
]
[kafka.properties]
security.protocol = "SSL"
[[views]]
name = "one"
inline = { total = "sum(x)" }
[views.aggregates]
n = "count()"
[[views]]
name = "two"
where = "a = '[' "
[views.aggregates]
total = "sum(x)"
[store]
url = 'redis://#'
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 1),
        (("kafka",), 2),
        (("kafka", "port"), 3),
        (("kafka", "bootstrap", "servers"), 4),
        (("kafka", "x.y"), 5),
        (("kafka", "list"), 10),
        (("kafka", "properties", "security", "protocol"), 14),
        (("views",), 15),
        (("views", 0, "name"), 16),
        (("views", 0, "inline", "total"), 17),
        (("views", 0, "aggregates", "n"), 19),
        (("views", 1), 20),
        (("views", 1, "name"), 21),
        (("views", 1, "missing"), 20),
        (("views", 1, "aggregates", "total"), 24),
        (("store",), 25),
        (("store", "url"), 26),
        (("nowhere", "x"), None),
    ],
)
def test_every_key_has_its_line(path: Path, line: int | None) -> None:
    assert Lines(TEXT).find(path) == line


def test_lines_are_found_with_windows_line_ends() -> None:
    assert Lines("[kafka]\r\nport = 1\r\n").find(("kafka", "port")) == 2
