from __future__ import annotations

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from distributary.httpd.prometheus_text import Histogram, counter, gauge, render


def test_text_is_read_back_by_the_library() -> None:
    delays = Histogram("delay_ms", "How long.")
    delays.add({"view": "v"}, [(1, 2), (5, 3)], total=17, count=4)
    families = [
        gauge("rows", "Rows.", [({"view": 'a"b\n\\'}, 3)]),
        counter("requests", "Requests.", [({}, 1)]),
        gauge("nothing", "No samples.", []),
        delays.family,
    ]
    text = render(families)
    read = {family.name: family for family in text_string_to_metric_families(text)}
    assert [family.name for family in families] == list(read)
    for family in families:
        assert (read[family.name].type, read[family.name].documentation) == (
            family.type,
            family.documentation,
        )
        assert read[family.name].samples == family.samples
    assert "# TYPE distributary_requests_total counter" in text


def test_collectors_of_the_library_are_not_part_of_the_text() -> None:
    text = render([gauge("rows", "Rows.", [({}, 1)])])
    assert {line.split()[2] for line in text.splitlines() if line.startswith("#")} == {"distributary_rows"}


def test_commands_do_not_import_the_library() -> None:
    """It takes tens of milliseconds, which a server may spend at its start."""
    code = (
        "import sys, distributary, distributary.cli.main, distributary.control.api_client, "
        "distributary.stack.embedded_stack; print('prometheus_client' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
