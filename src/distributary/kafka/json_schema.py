"""JSON Schemas as validators that fetch nothing: all that a schema refers to is in it, or is a dialect's own.

Left to itself, the library opens whatever address a ``$ref`` names, files of this machine too, and repeats
what it found there in its errors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import Draft7Validator, extend, validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

_REASON = 300
"""Characters of a reason: errors repeat the value, which may be long."""


Dialect = type[Validator]
"""The validators of one version of JSON Schema."""


def dialect(document: Any, default: Dialect = Draft7Validator) -> Dialect:
    """Give the dialect of a schema: ``default`` unless ``$schema`` names another that is known."""
    found: Dialect = validator_for(document, default=default)
    return found


def check(document: Any, default: Dialect = Draft7Validator) -> None:
    """Raise ValueError unless a document is a schema of its dialect, and refers to nothing outside it."""
    if not isinstance(document, dict | bool):
        raise ValueError("a JSON Schema is an object, true or false")
    if isinstance(document, dict) and not isinstance(document.get("$schema", ""), str):
        raise ValueError("$schema is no text")
    try:
        kind = dialect(document, default)
        kind.check_schema(document)
        _check_references(document, kind)
    except SchemaError as error:
        raise ValueError(f"{error.json_path}: {error.message}"[:_REASON]) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except Unresolvable as error:
        raise ValueError(
            f"the reference {str(error.ref)[:100]!r} leads nowhere in the schema; nothing else is looked up"
        ) from None


def make_validator(document: Any, default: Dialect = Draft7Validator, *, formats: bool = False) -> Validator:
    """Make the validator of a schema that passed `check`; ``formats``: it looks at ``format``, too."""
    kind: Any = dialect(document, default)
    checker = kind.FORMAT_CHECKER if formats else None
    found: Validator = _mended(kind)(document, registry=REGISTRY, format_checker=checker)
    return found


@lru_cache
def _mended(kind: Any) -> Any:
    """Give a dialect whose ``additionalItems`` does not raise where ``items`` is true or false."""
    theirs = kind.VALIDATORS.get("additionalItems")
    if theirs is None:
        return kind

    def additional_items(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        # It says something only of what comes after a list of schemas.
        if isinstance(schema.get("items"), list):
            yield from theirs(validator, value, instance, schema)

    return extend(kind, {"additionalItems": additional_items})


def reason(validator: Validator, value: Any) -> str:
    """Say why a value does not fit; "" when it does."""
    try:
        error = best_match(validator.iter_errors(value))
    except RecursionError:
        return "it is nested too deeply"
    except Unresolvable as problem:
        return f"the schema's reference {problem.ref} leads nowhere"[:_REASON]
    return f"{error.json_path}: {error.message}"[:_REASON] if error is not None else ""


def _check_references(document: Any, kind: Dialect) -> None:
    if isinstance(document, bool):
        return
    words = specification_with(str(kind.META_SCHEMA["$schema"]))
    root = words.create_resource(document)
    waiting = [(root, REGISTRY.resolver_with_root(root))]
    while waiting:
        resource, resolver = waiting.pop()
        if isinstance(resource.contents, dict):
            for name in ("$ref", "$dynamicRef"):
                if isinstance(reference := resource.contents.get(name), str):
                    resolver.lookup(reference)
        waiting += [(one, resolver.in_subresource(one)) for one in resource.subresources()]
