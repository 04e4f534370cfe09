"""JSON Schemas as validators that fetch nothing: a schema may refer only to itself and to its dialect.

By default the library opens any URL that a ``$ref`` names, local files too, and quotes what it found there
in its errors.
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

_MAX_REASON = 300
"""Characters of a reason: errors quote the value, which may be long."""


Dialect = type[Validator]
"""The validator class of one version of JSON Schema."""


def dialect(document: Any, default: Dialect = Draft7Validator) -> Dialect:
    """The dialect of a schema: ``default`` unless ``$schema`` names another known one."""
    found: Dialect = validator_for(document, default=default)
    return found


def check_schema(document: Any, default: Dialect = Draft7Validator) -> None:
    """Raise ValueError unless a document is a schema of its dialect that refers to nothing outside it."""
    if not isinstance(document, dict | bool):
        raise ValueError("a JSON Schema must be an object, true or false")
    if isinstance(document, dict) and not isinstance(document.get("$schema", ""), str):
        raise ValueError("$schema must be a string")
    try:
        kind = dialect(document, default)
        kind.check_schema(document)
        _check_references(document, kind)
    except SchemaError as error:
        raise ValueError(f"{error.json_path}: {error.message}"[:_MAX_REASON]) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except Unresolvable as error:
        raise ValueError(
            f"the reference {str(error.ref)[:100]!r} is not in the schema, "
            "and references to other documents are not followed"
        ) from None


def create_validator(
    document: Any, default: Dialect = Draft7Validator, *, formats: bool = False
) -> Validator:
    """The validator of a schema that passed `check_schema`; with ``formats`` it checks ``format``, too."""
    kind: Any = dialect(document, default)
    checker = kind.FORMAT_CHECKER if formats else None
    found: Validator = _fixed(kind)(document, registry=REGISTRY, format_checker=checker)
    return found


@lru_cache
def _fixed(kind: Any) -> Any:
    """A dialect whose ``additionalItems`` does not raise if ``items`` is true or false."""
    original = kind.VALIDATORS.get("additionalItems")
    if original is None:
        return kind

    def additional_items(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        # It applies only to the items after a list of schemas.
        if isinstance(schema.get("items"), list):
            yield from original(validator, value, instance, schema)

    return extend(kind, {"additionalItems": additional_items})


def mismatch(validator: Validator, value: Any) -> str:
    """Why a value does not match; "" if it does."""
    try:
        error = best_match(validator.iter_errors(value))
    except RecursionError:
        return "it is nested too deeply"
    except Unresolvable as problem:
        return f"the schema's reference {problem.ref} is not in it"[:_MAX_REASON]
    return f"{error.json_path}: {error.message}"[:_MAX_REASON] if error is not None else ""


def _check_references(document: Any, kind: Dialect) -> None:
    if isinstance(document, bool):
        return
    specification = specification_with(str(kind.META_SCHEMA["$schema"]))
    root = specification.create_resource(document)
    waiting = [(root, REGISTRY.resolver_with_root(root))]
    while waiting:
        resource, resolver = waiting.pop()
        if isinstance(resource.contents, dict):
            for name in ("$ref", "$dynamicRef"):
                if isinstance(reference := resource.contents.get(name), str):
                    resolver.lookup(reference)
        waiting += [(one, resolver.in_subresource(one)) for one in resource.subresources()]
