"""The schemas of a feed, from a registry with the API of Confluent's."""

from __future__ import annotations

import base64
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from confluent_kafka import KafkaError, TopicPartition

from distributary.auth.client_security import Trust, opener
from distributary.config import Config
from distributary.config.secrets import mask_text
from distributary.config.sections import Kafka
from distributary.errors import BadView, SchemasUnavailable
from distributary.kafka import librdkafka
from distributary.reducers.confluent_framing import Known, schema_id

log = logging.getLogger(__name__)

TIMEOUT = 5.0
"""Seconds that the registry has to respond."""
SCAN_SECONDS = 3.0
SCAN_SCHEMAS = 1_000
"""After what time, and how many schemas, a topic is not scanned any further."""
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Registry:
    """Reads from a registry over HTTP. Raises SchemasUnavailable when it does not respond as it should."""

    def __init__(self, config: Config) -> None:
        self._shown = mask_text(config.schemas.url) or _own(config)
        parts = urlsplit(config.schemas.url or self._shown)
        endpoint = parts.netloc.rpartition("@")[2]
        self._url = urlunsplit((parts.scheme, endpoint, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        if config.schemas.api_key:
            self._headers["X-API-Key"] = config.schemas.api_key
        # A proxy from the environment is for other servers, not for the stack's own gateway.
        proxies = [] if config.schemas.url else [urllib.request.ProxyHandler({})]
        trust = Trust(pinned=filter(None, [config.gateway.tls_certificate]))
        context = trust.context(self._url)
        https = [urllib.request.HTTPSHandler(context=context)] if context else []
        self._open = opener(*proxies, *https).open

    def versions(self, subject: str) -> list[int]:
        """Return the numbers of a subject's versions; none if the subject does not exist."""
        return list(self._get(f"/subjects/{quote(subject, safe='')}/versions") or ())

    def version(self, subject: str, number: int) -> dict[str, Any] | None:
        """Return a version: its ``id``, ``schema`` and the rest; None if it is gone."""
        found: dict[str, Any] | None = self._get(f"/subjects/{quote(subject, safe='')}/versions/{number}")
        return found

    def schema(self, id: int) -> dict[str, Any] | None:
        """Return what is registered under an id; None if nothing is."""
        found: dict[str, Any] | None = self._get(f"/schemas/ids/{id}")
        return found

    def _get(self, path: str) -> Any:
        request = urllib.request.Request(self._url + path, headers=self._headers)
        try:
            with self._open(request, timeout=TIMEOUT) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                body = error.read(10_000)
            if error.code == 404 and b"error_code" in body:
                return None
            why, hint = f"responds with {error.code} to {path}", ""
            if error.code in (401, 403):
                hint = "Give user:password in schemas.url, or schemas.api_key for a gateway with permission"
        except (OSError, HTTPException, ValueError) as error:  # a URLError is an OSError
            why, hint = f"is not responding: {getattr(error, 'reason', error)}", ""
        raise SchemasUnavailable(
            f"the schema registry at {self._shown} {why}",
            hint=hint or "The view continues when it does; check schemas.url, and that the gateway runs",
        )


class SchemaBook:
    """What is known of a topic's schemas, so that each is read once. For one view's job."""

    def __init__(self, registry: Registry, view: str, topic: str) -> None:
        self._registry = registry
        self._view = view
        self._subject = f"{topic}-value"
        self._versions: set[int] = set()
        self._requested: set[int] = set()
        self._missing: set[int] = set()
        self._schemas: dict[int, Any] = {}
        self._unusable: dict[int, str] = {}

    def request(self, ids: Iterable[int]) -> None:
        """Make ``read`` request these ids, unless they are known."""
        self._requested |= set(ids) - self._schemas.keys() - self._unusable.keys()

    def refreshed(self) -> bool:
        """Whether a missing schema is registered now; its records are dead letters until ``read``."""
        try:
            # Ids are assigned in order: while the first is missing, so are the others.
            return bool(self._missing) and self._registry.schema(min(self._missing)) is not None
        except SchemasUnavailable:
            return False

    def read(self) -> Known:
        """Read new versions of the topic's subject, and the schemas that were requested or missing."""
        for number in self._registry.versions(self._subject):
            if number not in self._versions:
                found = self._registry.version(self._subject, number)
                if found is not None:
                    self._take(int(found["id"]), found)
                    self._versions.add(number)
        if self.refreshed():
            self._requested |= self._missing
        for id in sorted(self._requested):
            self._take(id, self._registry.schema(id))
            self._requested.discard(id)
        return Known(dict(self._schemas), dict(self._unusable))

    def _take(self, id: int, found: dict[str, Any] | None) -> None:
        self._unusable.pop(id, None)
        self._missing.discard(id)
        if found is None:
            self._missing.add(id)
            self._unusable[id] = f"the schema registry has no schema {id}"
            return
        if found.get("references"):
            raise BadView(
                f"view {self._view}: the schema {id} has references, which are not supported",
                hint="Include the referenced types in the schema",
            )
        kind = found.get("schemaType", "AVRO")
        schema = json.loads(found["schema"]) if kind == "AVRO" else None
        if isinstance(schema, dict) and schema.get("type") == "record":
            self._schemas[id] = schema
        else:
            what = f"{kind}, not AVRO" if kind != "AVRO" else "not a record"
            self._unusable[id] = f"the schema {id} is {what}"


def _own(config: Config) -> str:
    """Return the URL of the stack's own gateway."""
    host = _ANYWHERE.get(config.gateway.host, config.gateway.host)
    return f"{config.gateway.http_scheme}://{f'[{host}]' if ':' in host else host}:{config.gateway.port}"


def schemas_ahead(kafka: Kafka, topic: str, starts: Mapping[int, int]) -> set[int]:
    """Return the ids of the schemas of records from some offsets on, as far as a few seconds reach."""
    # librdkafka requires a group's name and does not use it: assign() joins no group.
    reader = librdkafka.consumer(
        kafka, "distributary-schemas", auto_offset_reset="earliest", enable_partition_eof="true"
    )
    found: set[int] = set()
    left, until = set(starts), time.monotonic() + SCAN_SECONDS
    try:
        reader.assign([TopicPartition(topic, partition, at) for partition, at in starts.items()])
        while left and len(found) < SCAN_SCHEMAS and time.monotonic() < until:
            for message in reader.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    id = schema_id(message.value() or b"")
                    found |= {id} if id is not None else set()
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition() or 0)
    finally:
        reader.close()
    return found
