"""Secrets planted in every setting that may contain one, so that a test can search all output for them.

The settings are enumerated from the table, so a new one that is marked as secret, or that accepts an
address with a password, is included without a change here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from distributary.config.sections import SECTIONS
from distributary.config.setting_field import Setting, quote
from distributary.config.settings_table import SETTINGS
from distributary.kafka.client_properties import PROPERTIES

MARK = "pl4nted"
"""Part of everything planted, and of nothing else."""

_SECRET = f"{MARK}-secret-" + "x7" * 30
_ADDRESSES = (
    f"redis://user:{MARK}@127.0.0.1:1/0",
    f"redis://:{MARK}/with@signs@127.0.0.1:1/0",
    f"unix:///nonexistent/store.sock?password={MARK}",
    f"https://user:{MARK}@127.0.0.1:1/path",
    f"http://127.0.0.1:1/keys.json?token={MARK}",
    f"https://{MARK}@127.0.0.1:1",
    f"wss://user:{MARK}@127.0.0.1:1",
)
_TELLING = re.compile(r"passw|passphrase|secret|jaas|credential|oauthbearer\.config|\.key$|\.key\.pem$")
_SPARK = (
    *("spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.azure.account.key.a.blob.core.windows.net"),
    *("spark.ssl.keyStorePassword", "spark.kubernetes.authenticate.driver.oauthToken", "spark.vendor.auth"),
)
_JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{MARK}";'
_LONG_WORDS = "just some words, no address of anything"


class Plant(NamedTuple):
    """A setting and its value with the mark: a string, several, or a table of strings."""

    setting: Setting
    value: str | list[str] | dict[str, str]

    @property
    def toml(self) -> str:
        """The section of a file with this setting and no other."""
        if isinstance(self.value, dict):
            written = "{ " + ", ".join(f"{quote(k)} = {quote(v)}" for k, v in self.value.items()) + " }"
        else:
            written = json.dumps(self.value)
        return f"[{self.setting.section}]\n{self.setting.name} = {written}\n"

    @property
    def env(self) -> dict[str, str]:
        """The environment with this setting and no other."""
        if isinstance(self.value, dict):
            return {self.setting.env: json.dumps(self.value)}
        return {self.setting.env: ",".join([self.value] if isinstance(self.value, str) else self.value)}

    @property
    def name(self) -> str:
        """For the test's own name."""
        scheme, address, _ = self.one.partition("://")
        return f"{self.setting.key}-{scheme if address else self.setting.info.kind}"

    @property
    def one(self) -> str:
        """The value, or the first of them."""
        return self.value if isinstance(self.value, str) else next(iter(_texts(self.value)))


def _texts(value: list[str] | dict[str, str]) -> Iterator[str]:
    return iter(value.values() if isinstance(value, dict) else value)


def plants() -> list[Plant]:
    """Everything that can be planted, each alone."""
    return [plant for setting in SETTINGS if setting.section in SECTIONS for plant in _of(setting)]


def _of(setting: Setting) -> Iterator[Plant]:
    info = setting.info
    if info.kind == "table":
        if info.secret or info.hidden:
            names = property_names(setting.section)
            yield Plant(setting, {name: _JAAS if "jaas" in name else _SECRET for name in names})
    elif info.kind in ("string", "list") and not info.choices:
        found = [text for text in _ADDRESSES if info.check is not None and _takes(setting, text)]
        if info.hidden:
            found = [_SECRET]
        elif _takes(setting, _LONG_WORDS):
            found = []  # it takes anything, and is no address: a name, a file, a host
        for text in found:
            yield Plant(setting, [text] if info.kind == "list" else text)


def property_names(section: str) -> list[str]:
    """Names of properties whose values are secrets: those of the table, and one that nobody knows."""
    if section == "spark":
        return list(_SPARK)
    return [*(name for name in PROPERTIES if _TELLING.search(name)), "vendor.auth"]


def _takes(setting: Setting, text: str) -> bool:
    if setting.info.check is None:
        return True
    try:
        setting.info.check(text)
    except ValueError:
        return False
    return True


def whole(*leave_out: str) -> str:
    """A file with a secret in every setting that takes one, each once, but for the keys named."""
    chosen: dict[str, Plant] = {}
    for plant in plants():
        key = plant.setting.key
        # One of the two may be given.
        if key not in leave_out and not (key == "store.shards" and "store.url" in chosen):
            chosen.setdefault(key, plant)
    sections: dict[str, list[str]] = {}
    for plant in chosen.values():
        sections.setdefault(plant.setting.section, []).append(plant.toml.split("\n")[1])
    return "".join(f"[{name}]\n" + "\n".join(lines) + "\n" for name, lines in sections.items())
