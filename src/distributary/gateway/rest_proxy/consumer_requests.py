"""Parses requests to consumer instances: settings, partitions, topic patterns, addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import re2  # type: ignore[import-untyped]

from distributary.gateway.error_codes import UNPROCESSABLE, RestCode, api_error
from distributary.gateway.request_fields import check_entry
from distributary.gateway.rest_proxy.consumer_instance import ConsumerOptions
from distributary.gateway.rest_proxy.serialization import FORMATS

OFFSET_RESETS = {
    "earliest": "earliest",
    "smallest": "earliest",
    "latest": "latest",
    "largest": "latest",
    "none": "error",
}
SETTINGS = (
    "id",
    "name",
    "format",
    "auto.offset.reset",
    "auto.commit.enable",
    "consumer.request.timeout.ms",
    "fetch.min.bytes",
)
"""The settings of an instance; version 1 calls its name ``id``, version 2 ``name``."""
MAX_MIN_BYTES = 10_000_000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~%-]+)*/?")


# --- the settings of an instance ---


def parse_options(body: Mapping[str, Any]) -> ConsumerOptions:
    """Parse the `SETTINGS` of a new instance."""
    name = body.get("name") or body.get("id") or ""
    if not isinstance(name, str) or (name and not _NAME.fullmatch(name)):
        raise _invalid(f"invalid instance name {str(name)[:80]!r}", "use letters, digits, . _ and -")
    format = _string(body, "format", "binary")
    if format not in FORMATS:
        raise _invalid(f"unknown format {format[:40]!r}", f"use one of {', '.join(FORMATS)}")
    reset = _string(body, "auto.offset.reset", "latest")
    if reset not in OFFSET_RESETS:
        hint = f"use one of {', '.join(OFFSET_RESETS)}"
        raise _invalid(f"unknown value {reset[:40]!r} of auto.offset.reset", hint)
    commit = str(body.get("auto.commit.enable", "true")).lower()
    if commit not in ("true", "false"):
        raise _invalid("auto.commit.enable must be true or false")
    wait_ms = _integer(body, "consumer.request.timeout.ms", 0, 60_000)
    min_bytes = _integer(body, "fetch.min.bytes", -1, MAX_MIN_BYTES)
    return ConsumerOptions(
        name=name,
        format=format,
        offset_reset=OFFSET_RESETS[reset],
        auto_commit=commit == "true",
        wait=None if wait_ms is None else wait_ms / 1000,
        min_bytes=max(min_bytes or 0, 0),
    )


def _invalid(message: str, hint: str = "") -> Exception:
    return api_error(RestCode.INVALID_CONSUMER_CONFIG, message, hint)


def _integer(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """Read a setting that is an integer, or a string with one; None if it is not given."""
    value = body.get(name)
    if value is None:
        return None
    text = str(value)
    valid = isinstance(value, int | str) and re.fullmatch("-?[0-9]{1,18}", text, re.ASCII)
    if not valid or not low <= int(text) <= high:
        raise _invalid(f"{name} must be a number from {low} to {high}")
    return int(text)


def _string(body: Mapping[str, Any], name: str, default: str) -> str:
    value = body.get(name)
    return default if value is None else str(value).lower()


# --- the address of an instance ---


def base_uri(
    group: str, name: str, *, advertised: str, host: str, scheme: str, headers: Mapping[str, str]
) -> str:
    """Return an instance's address: by the configuration, else by a proxy's headers, else by the request."""
    if advertised:
        base = advertised.rstrip("/")
    else:
        proto = _forwarded(headers, "X-Forwarded-Proto", re.compile("https?")) or scheme
        endpoint = _forwarded(headers, "X-Forwarded-Host", _HOST) or (
            host if _HOST.fullmatch(host) else "localhost"
        )
        port = _forwarded(headers, "X-Forwarded-Port", re.compile("[0-9]{1,5}"))
        if port and "X-Forwarded-Host" in headers and not re.search(r":[0-9]+$", endpoint):
            endpoint += "" if port == {"http": "80", "https": "443"}[proto] else f":{port}"
        base = f"{proto}://{endpoint}" + _forwarded(headers, "X-Forwarded-Prefix", _PREFIX).rstrip("/")
    return f"{base}/consumers/{quote(group, safe='')}/instances/{quote(name, safe='')}"


def _forwarded(headers: Mapping[str, str], name: str, pattern: re.Pattern[str]) -> str:
    """Return the first value of a proxy's header; "" if it is not valid."""
    value = headers.get(name, "").partition(",")[0].strip()
    return value if pattern.fullmatch(value) else ""


# --- partitions and offsets ---


class PartitionOffset(NamedTuple):
    """An entry of a consumer's request: a partition, an offset, and metadata to commit with it."""

    topic: str
    partition: int
    offset: int = 0
    metadata: str = ""


PARTITION_FIELDS = ("topic", "partition")
OFFSET_FIELDS = (*PARTITION_FIELDS, "offset")
COMMIT_FIELDS = (*OFFSET_FIELDS, "metadata")
"""The fields of an entry, by request; only ``metadata`` is optional."""


def parse_partitions(body: dict[str, Any]) -> list[tuple[str, int]]:
    """Parse the list ``partitions`` of a consumer's request."""
    return [(entry.topic, entry.partition) for entry in parse_offsets(body, "partitions", PARTITION_FIELDS)]


def parse_offsets(body: dict[str, Any], name: str, fields: tuple[str, ...]) -> list[PartitionOffset]:
    """Parse the list ``name`` of a consumer's request, each entry of which has ``fields``."""
    entries = body.get(name)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise api_error(
            UNPROCESSABLE, f'"{name}" is missing or not a list of objects', f'send {{"{name}": [{{…}}]}}'
        )
    return [
        _partition_offset(entry, fields, f"the body, at {name}[{index}],")
        for index, entry in enumerate(entries)
    ]


def _partition_offset(entry: dict[str, Any], fields: tuple[str, ...], where: str) -> PartitionOffset:
    check_entry(entry, fields, where)
    topic, metadata = entry.get("topic"), entry.get("metadata")
    valid = isinstance(topic, str) and topic and isinstance(metadata, str | None)
    numbers = [entry.get(field) for field in fields if field in ("partition", "offset")]
    if not valid or not all(_is_unsigned(number) for number in numbers):
        required = ", ".join(field for field in fields if field != "metadata")
        raise api_error(
            UNPROCESSABLE, f"each entry must have {required}; this one has not: {str(entry)[:120]}"
        )
    return PartitionOffset(
        topic=str(topic),
        partition=entry["partition"],
        offset=entry.get("offset", 0),
        metadata=metadata or "",
    )


def _is_unsigned(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


# --- topic patterns ---


class Pattern(Protocol):
    """A compiled regular expression."""

    def fullmatch(self, text: str) -> object:
        """Return a match of the whole text, or None."""


def parse_topic_pattern(text: str) -> Pattern:
    """Compile an untrusted regular expression: matching it takes linear time."""
    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        raise api_error(
            UNPROCESSABLE,
            f"topic_pattern is not a valid regular expression: {reason}",
            "correct it; look-ahead and back-references are not supported",
        ) from None
    return pattern
