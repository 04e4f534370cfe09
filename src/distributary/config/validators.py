"""Checks of single texts. Each gives the text back in its normal form or raises ValueError.

Messages do not repeat the text: it may hold a password, and the place is named by the caller.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit

from distributary.config.secrets import mask_text

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):([0-9]{1,5})")
_MASTER = re.compile(r"local(?:\[[0-9*, ]+\])?|yarn|spark://\S+|k8s://\S+")
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_ORIGIN = re.compile(r"https?://[^/\s?#@]+")
_HEADER = re.compile(r"[!-~]*")
_HOST_NAME = re.compile(r"[A-Za-z0-9_.-]+|\[?[0-9A-Fa-f:.]+\]?")
_VARIABLE = re.compile(r"[A-Za-z_*?][A-Za-z0-9_*?]*", re.ASCII)

RULES = ("merge", "latest", "aggregate")


def name(text: str) -> str:
    """Check the name of a feed or a view."""
    if not _NAME.fullmatch(text):
        raise ValueError("expected a name: a lower-case letter, then up to 62 of a-z 0-9 _ -")
    return text


def not_blank(text: str) -> str:
    """Check that something is written."""
    if not text.strip():
        raise ValueError("expected a text that is not empty")
    return text


def topic(text: str) -> str:
    """Check the name of a Kafka topic by Kafka's own rule."""
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise ValueError("expected a Kafka topic: up to 249 of a-z A-Z 0-9 . _ -")
    return text


def topic_or_empty(text: str) -> str:
    """Check the name of a Kafka topic, where "" means the usual one."""
    return text and topic(text)


def row_filter(value: Any) -> str:
    """Check a filter as live queries have it."""
    from distributary.errors import BadQuery
    from distributary.model.filter import parse  # for the few files that have one

    if not isinstance(value, str):
        raise ValueError('expected a filter such as "stake >= 1000" (a name with dots is quoted)')
    try:
        parse(value)
    except BadQuery as error:
        raise ValueError(str(error)) from None
    return value


def servers(text: str) -> str:
    """Check ``host:port[,host:port…]``; spaces around the commas are dropped. "" means embedded."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    for part in parts:
        match = _SERVER.fullmatch(part)
        if match is None or not 0 < int(match[1]) < 65536:
            raise ValueError('expected addresses such as "host:9092" or "a:9092,b:9092"')
    return ",".join(parts)


def store_url(text: str) -> str:
    """Check the address of a Redis or Valkey server. "" means embedded."""
    return _url(text, ("redis", "rediss", "unix"), "redis://host:6379/0, rediss://… or unix:///path")


def shard(text: str) -> str:
    """Check the address of one of several servers."""
    return store_url(not_blank(text))


def public_url(text: str) -> str:
    """Check an address of a publisher."""
    return _url(text, ("ws", "wss", "http", "https"), "wss://stream.example.com")


def web_url(text: str) -> str:
    """Check an address that clients of a server are given. "" means the one listened on."""
    return _without_secret(_url(text, ("http", "https"), "https://kafka.example.com/rest"))


def advertised_url(text: str) -> str:
    """Check an address that subscribers are given. "" means the one listened on."""
    return _without_secret(public_url(text))


def registry_url(text: str) -> str:
    """Check the address of a schema registry. "" means the gateway of the stack."""
    return _url(text, ("http", "https"), "https://registry.example.com")


def header(text: str) -> str:
    """Check a text that is sent as the value of an HTTP header."""
    if not _HEADER.fullmatch(text):
        raise ValueError("expected visible ASCII characters and no line break")
    return text


def pem_file(text: str) -> str:
    """Check the name of a file with a key, in place of which the key itself is easily given."""
    if "-----BEGIN" in text:
        raise ValueError("expected the name of a file, not the key itself")
    return not_blank(text)


def master(text: str) -> str:
    """Check a Spark master. "" means local."""
    if text and not _MASTER.fullmatch(text):
        raise ValueError(
            'expected a Spark master such as "local[4]", "spark://host:7077", "k8s://…" or "yarn"'
        )
    return text


def variable(text: str) -> str:
    """Check the name of an environment variable, or a pattern of names."""
    if not _VARIABLE.fullmatch(text):
        raise ValueError('expected the name of a variable, or a pattern such as "AWS_*"')
    return text


def origin(text: str) -> str:
    """Check one browser origin: scheme and host without a path, or "*"."""
    if text != "*" and not _ORIGIN.fullmatch(text):
        raise ValueError('expected an origin such as "https://app.example.com" (no path), or "*"')
    return text


def host_name(text: str) -> str:
    """Check the name or address of a host, without a port."""
    if not _HOST_NAME.fullmatch(text):
        raise ValueError('expected the name of a host such as "stream.example.com" (no port, no path)')
    return text.lower()


def network(text: str) -> str:
    """Check an address, or a network of addresses."""
    try:
        return str(ipaddress.ip_network(text.strip("[]"), strict=False))
    except ValueError:
        raise ValueError('expected an address or a network such as "10.0.0.7" or "10.0.0.0/8"') from None


def rule(text: str) -> str:
    """Check a reduce rule: a known word, or the import path of a Python function."""
    if text not in RULES and not _FUNCTION.fullmatch(text):
        raise ValueError(f'expected {", ".join(RULES)} or a function as "package.module:function"')
    return text


def function(text: str) -> str:
    """Check the import path of a Python function."""
    if not _FUNCTION.fullmatch(text):
        raise ValueError('expected a function as "package.module:function"')
    return text


def _without_secret(text: str) -> str:
    if urlsplit(text).username is not None or mask_text(text) != text:
        raise ValueError("expected an address without user, password and token: clients are given it")
    return text


def _url(text: str, schemes: tuple[str, ...], example: str) -> str:
    if not text:
        return text
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - the property raises when the port is no number
    except ValueError:
        raise ValueError(f"expected an address such as {example}") from None
    has_place = parts.path if parts.scheme == "unix" else parts.hostname
    if parts.scheme not in schemes or not has_place:
        raise ValueError(f"expected an address such as {example}")
    return text
