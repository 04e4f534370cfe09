"""Secrets are never printed: by commands, reprs or error messages."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.planted_secrets import MARK, Plant, plants, property_names

from distributary.cli.main import main
from distributary.config import load
from distributary.config.setting_field import PREFIX, display, masked
from distributary.config.settings_table import SETTINGS
from distributary.errors import ConfigError
from distributary.model.setting_info import SettingInfo

PLANTS = plants()
each = pytest.mark.parametrize("plant", PLANTS, ids=[plant.name for plant in PLANTS])
FILE = Path("distributary.toml")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_every_marked_setting_is_planted_in() -> None:
    marked = {s.key for s in SETTINGS if s.info.secret or s.info.hidden} - ADVERTISED - FILES
    assert marked <= {plant.setting.key for plant in PLANTS}
    assert {"sasl.password", "ssl.key.pem", "sasl.jaas.config"} <= set(property_names("kafka"))


ADVERTISED = {"publisher.advertised_url", "gateway.advertised_url"}
"""These URLs are sent to clients, so they must not contain a password."""
FILES = {"auth.public_keys"}
"""Names of files: masked only if they contain a key instead."""


@pytest.mark.parametrize("key", sorted(ADVERTISED))
@pytest.mark.parametrize("url", ["https://user:{}@h/rest", "https://{}@h", "https://h/rest?token={}"])
def test_advertised_address_with_a_secret_is_refused(key: str, url: str) -> None:
    section, name = key.split(".")
    FILE.write_text(f'[{section}]\n{name} = "{url.format(MARK)}"\n')
    with pytest.raises(ConfigError, match="it is sent to clients") as caught:
        load(FILE, {})
    assert MARK not in str(caught.value)


@each
@pytest.mark.parametrize("source", ["file", "environment"])
def test_commands_and_reprs_hide_secrets(
    plant: Plant, source: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    FILE.write_text(plant.toml if source == "file" else "")
    if source == "environment":
        for name, text in plant.env.items():
            monkeypatch.setenv(name, text)
    config = load(FILE)
    section = getattr(config, plant.setting.section)
    assert MARK in str(getattr(section, plant.setting.name)), "the secret is not where it was planted"
    shown = [repr(config), str(config), repr(section), str(section), repr(config.effective())]
    shown += [f"{row.text} {row.value} {row.origin} {row!r}" for row in config.effective()]
    for arguments in (["config"], ["--json", "config"]):
        assert main(arguments) == 0
        captured = capsys.readouterr()
        shown += [captured.out, captured.err]
    found = [text for text in shown if MARK in text]
    assert not found


def mistakes(plant: Plant) -> Iterator[str]:
    """Files in which somebody made a mistake at or beside the secret."""
    section, name = plant.setting.section, plant.setting.name
    value = plant.toml.partition(" = ")[2].strip()
    text = json.dumps(plant.one)
    for wrong in (f"[[{text}]]", f"[{{ a = {text} }}]", f"{{ a = [{text}] }}", f"{{ a = {text} }}", text):
        yield f"[{section}]\n{name} = {wrong}\n"
    for spoiled in (
        MARK,
        plant.one[:-1],
        plant.one[1:],
        plant.one + ":port",
        plant.one + " \n",
        plant.one * 2,
    ):
        yield f"[{section}]\n{name} = {json.dumps(spoiled)}\n"
        yield f"[{section}]\n{name} = [{json.dumps(spoiled)}]\n"
    yield f"[{section}]\n{name}x = {value}\n"
    yield f"[{section}x]\n{name} = {value}\n"
    yield f"{section} = {value}\n"
    yield f"{name} = {value}\n"
    yield f"data_dir = {value}\n"
    yield f"[[{section}]]\n{name} = {value}\n"
    yield f"[{section}]\n{name} = {value}\n{name} = {value}\n"
    yield f"[{section}]\n{name} = {value[:-1]}\n"
    yield f"[{section}]\n{name} = {value} {value}\n"
    yield f"[{section}]\n{name} = {plant.one}\n"
    yield f"[{section}]\n{name} = {value}\n[{section}]\nport = 1\n"
    yield f"[{section}]\n{name} = {value}\nport = \n"
    yield f"[{section}]\n{name} = {value}\nprot = 1\n[control]\nport = 0\n"
    yield f"[{section}]\n{name}.{name} = {value}\n"
    yield f"[store]\nurl = {text}\nshards = [{text}]\n"
    yield f"[auth]\nkeys = {{ a = {{ hash = {text} }} }}\n"
    if "://" in plant.one:
        yield f"[auth]\npublic_keys = [{text}]\n"
    for other in ("port", "memory", "engine", "jwks_ttl", "queue_bytes", "default_views", "require_expiry"):
        for setting in SETTINGS:
            if setting.name == other and "://" in plant.one:
                yield f"[{setting.section}]\n{other} = {text}\n"


@each
def test_refusals_of_the_loader_hide_secrets(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    for text in mistakes(plant):
        FILE.write_text(text)
        main(["config"])
        captured = capsys.readouterr()
        shown = captured.out + captured.err
        try:
            load(FILE, {})
        except ConfigError as error:
            shown += f"{error!r} {error.problems!r}" + "".join(traceback.format_exception(error))
        lines = [line for line in shown.splitlines() if MARK in line and "data_dir" not in line]
        assert not lines, text


@each
def test_refusals_of_the_environment_hide_secrets(plant: Plant) -> None:
    (name, text), *_ = plant.env.items()
    for env in (
        {name: MARK},
        {name: text[:-1]},
        {name: f"{{{text}"},
        {name: f"{text},{text}={text}"} if plant.setting.info.kind != "table" else {name: f"{text},"},
        {f"{name}S_": text},
        {name.replace("_", "__"): text},
    ):
        FILE.write_text("")
        try:
            shown = repr(load(FILE, env).effective())
        except ConfigError as error:
            shown = f"{error} {error!r} {error.problems!r}"
        assert MARK not in shown, env


def test_private_key_in_place_of_a_file_is_refused_and_not_repeated() -> None:
    pem = f"-----BEGIN PRIVATE KEY-----\\n{MARK}\\n-----END PRIVATE KEY-----"
    FILE.write_text(f'[auth]\npublic_keys = ["{pem}"]\n')
    with pytest.raises(ConfigError, match=r"auth\.public_keys: expected the name of a file") as caught:
        load(FILE, {})
    assert MARK not in str(caught.value)


def test_api_key_that_cannot_be_a_header_is_refused_and_not_repeated() -> None:
    FILE.write_text(f'[schemas]\napi_key = "{MARK}\\n"\n')
    with pytest.raises(ConfigError, match=r"schemas\.api_key") as caught:
        load(FILE, {})
    assert MARK not in str(caught.value)


@pytest.mark.parametrize("value", [MARK, (MARK, MARK), {"plain.name": MARK}, None])
def test_all_of_a_hidden_setting_is_hidden(value: object) -> None:
    kinds = {str: "string", tuple: "list", dict: "table", type(None): "string"}
    info = SettingInfo(doc="", kind=kinds[type(value)], hidden=True)  # type: ignore[arg-type]
    assert MARK not in f"{masked(info, value)} {display(info, value)}"
    assert value is None or "***" in display(info, value)


@each
def test_secret_would_be_shown_if_its_setting_were_not_marked(plant: Plant) -> None:
    """The control of the search: it finds what is planted."""
    FILE.write_text(plant.toml)
    value = getattr(getattr(load(FILE, {}), plant.setting.section), plant.setting.name)
    assert MARK in display(replace(plant.setting.info, hidden=False, secret=False), value)
