"""The registry's subject of a record's key or value, by the strategies that clients know. Pure."""

from __future__ import annotations

from distributary.gateway.error_codes import BAD_REQUEST, RestCode, api_error
from distributary.gateway.registry.registered_schema import Schema

TOPIC_NAME = "TOPIC_NAME"
STRATEGIES = (TOPIC_NAME, "RECORD_NAME", "TOPIC_RECORD_NAME")


def subject_of(topic: str, part: str, schema: Schema | None, strategy: str = TOPIC_NAME) -> str:
    """Name the subject of a topic's ``part`` (key or value); raises GatewayError.

    The strategies with RECORD_NAME need the schema: the subject has the full name of an Avro record, or the
    title of a JSON Schema.
    """
    if strategy == TOPIC_NAME:
        return f"{topic}-{part}"
    if schema is None:
        raise api_error(
            BAD_REQUEST,
            f"subject_name_strategy {strategy} needs the schema of the {part}",
            "give schema or schema_id, or name the subject",
        )
    name = _record_name(schema)
    if not name:
        raise api_error(
            RestCode.SERIALIZATION_FAILED,
            f"subject_name_strategy {strategy} needs a {part} schema with a record's name",
            "use an Avro record, or a JSON Schema with a title",
        )
    return name if strategy == "RECORD_NAME" else f"{topic}-{name}"


def _record_name(schema: Schema) -> str:
    try:
        if schema.kind == "AVRO":
            found = schema.avro().schema
            is_record = isinstance(found, dict) and found.get("type") in ("record", "error")
            return str(found["name"]) if is_record else ""
        found = schema.json()
    except ValueError:  # another registry wrote it, and it refers to others or is of another kind
        return ""
    return str(found.get("title", "")) if isinstance(found, dict) else ""
