"""The reference pages are the code's own words, and are up to date."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import msgspec
import pytest
from tests.support.doc_blocks import ROOT

from distributary import errors
from distributary.cli.commands import COMMANDS
from distributary.config.settings_table import SETTINGS
from distributary.control import control_app, control_metrics
from distributary.control.alarms import KINDS
from distributary.docgen import commands_page, metrics_page, protocol_page, rest_page, settings_page
from distributary.docgen.__main__ import PAGES, main
from distributary.gateway import gateway_app
from distributary.httpd.prometheus_text import Histogram, counter
from distributary.kafka.client_properties import PROPERTIES
from distributary.publisher import metrics
from distributary.publisher.codec import codes
from distributary.publisher.codec.client_commands import Command

SOURCE = ROOT / "src" / "distributary"


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")


def test_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", "--root", str(ROOT)]) == 0, capsys.readouterr().err


def test_reference_folder_has_only_generated_pages() -> None:
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "reference").iterdir()}
    assert found == set(PAGES)


def test_configuration_page_lists_every_setting() -> None:
    text = page("configuration")
    for setting in SETTINGS:
        assert f"### `{setting.key}`\n" in text
        assert setting.name == "name" or f"`{setting.env}`" in text


def test_commands_page_and_readme_list_every_command() -> None:
    for command in COMMANDS:
        assert f"## distributary {command.name}\n" in page("cli")
        assert f"| `distributary {command.name}` | {command.help} |" in (ROOT / "README.md").read_text()
    known = {command.name for command in COMMANDS}
    listed = re.findall(r"^\| `distributary (\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(known), "the README's table has every command once, and no others"
    assert set(re.findall(r"^## distributary (\w+)$", page("cli"), re.MULTILINE)) == known


def test_alarms_page_lists_every_alarm() -> None:
    for name, kind in KINDS.items():
        assert f"| `{name}` | {kind.severity} | {kind.about} |" in page("alarms")


def test_errors_page_lists_every_code() -> None:
    """Every class that sets ``code``, found in the source and not by what happens to be imported."""
    text = page("errors")
    found = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                for line in node.body:
                    if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code":
                        found += 1
                        assert f"| `{ast.literal_eval(line.value)}` |" in text, f"{path}:{line.lineno}"
    assert found > 20


def test_errors_page_lists_every_error_class_once() -> None:
    listed = re.findall(r"^\| `[\w-]+` \| [· ]*(\w+) \|", page("errors"), flags=re.MULTILINE)
    defined = [
        kind.__name__
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    assert sorted(listed) == sorted(defined)


def test_metrics_page_lists_every_metric() -> None:
    """Every name in the code that creates metrics, also of those without a sample."""
    text = page("metrics")
    for module in (metrics, control_metrics):
        source = inspect.getsource(module)
        tables = [
            (kind, name)
            for kind in ("COUNTERS", "GAUGES", "OUTCOMES", "VIEW_COUNTERS", "VIEW_GAUGES")
            for name, *_ in getattr(module, kind, ())
        ]
        prefix = "publisher_" if module is metrics else ""
        for kind, name in tables:
            suffix = "" if "GAUGES" in kind else "_total"
            assert f"| `distributary_{prefix}{name}{suffix}` | " in text
        for kind, name in re.findall(r'(gauge|counter|Histogram)\(\s*"(\w+)"', source):
            assert f"| `distributary_{name}{'_total' if kind == 'counter' else ''}` | " in text


def test_metric_is_described_with_its_labels() -> None:
    delays = Histogram("a_ms", "How long.")
    delays.add({"view": "v"}, [(1, 2)], total=3, count=2)
    assert metrics_page.describe([delays.family, counter("b", "How many.", [({}, 7)])]) == [
        metrics_page.Metric("distributary_a_ms", "histogram", "How long.", ("view",)),
        metrics_page.Metric("distributary_b_total", "counter", "How many.", ()),
    ]


def test_client_page_lists_every_property() -> None:
    text = page("client")
    for row in PROPERTIES.values():
        assert f"| `{row.name}` | {row.side} | {row.kind} |" in text or row.handling == "librdkafka"
        assert f"`{row.name}`" in text


def test_rest_page_lists_every_route() -> None:
    text = page("rest")
    tables = (control_app.ROUTES, rest_page.publisher_server().routes(), gateway_app.all_routes())
    names = [route.name for table in tables for route in table]
    assert len(names) > 15
    for name in names:
        assert f"### `{name}`\n" in text


def test_protocol_page_lists_every_code_and_command() -> None:
    text = page("protocol")
    for refusal in protocol_page.all_of(codes.Refusal):
        assert f"| {refusal.code} | {refusal.message} |" in text
    for ending in protocol_page.all_of(codes.Ending):
        assert f"| {ending.code} | {ending.reason} |" in text
    assert set(codes.CLOSINGS) <= set(protocol_page.all_of(codes.Ending))
    for field in msgspec.structs.fields(Command):
        assert field.name == "id" or f"`{field.name}`" in text
    source = "".join(
        (SOURCE / "publisher" / "http" / name).read_text() for name in ("event_stream.py", "stream_sink.py")
    )
    for name in re.findall(r'\bevent\("(\w+)"', source):
        assert f"| `{name}` |" in text


def test_settings_page_describes_every_setting() -> None:
    text = settings_page.page()
    for setting in SETTINGS:
        assert f"### `{setting.key}`\n\n{setting.info.doc}\n" in text
        assert setting.name == "name" or f"- Environment: `{setting.env}`\n" in text


def test_commands_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = commands_page.page()
    for command in COMMANDS:
        assert f"## distributary {command.name}\n" in text
    monkeypatch.setenv("COLUMNS", "40")
    assert commands_page.page() == text, "the page must not depend on the terminal"


def test_check_reports_a_page_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--root", str(tmp_path)]
    assert main([*words, "--check"]) == 1
    assert not list(tmp_path.iterdir()), "--check writes nothing"
    assert main(words) == 0
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.md")) == sorted(PAGES)
    assert main([*words, "--check"]) == 0
    written = tmp_path / "docs/reference/configuration.md"
    written.write_text(written.read_text() + "edited\n")
    capsys.readouterr()
    assert main([*words, "--check"]) == 1
    assert "configuration.md differs" in capsys.readouterr().err
