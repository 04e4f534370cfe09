"""Any Avro and JSON schemas, for tests of their compatibility."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
SYMBOLS = ("A", "B", "C")


def enums(name: str) -> st.SearchStrategy[Any]:
    symbols = st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True)
    plain = symbols.map(lambda chosen: {"type": "enum", "name": name, "symbols": chosen})
    return plain | symbols.map(
        lambda chosen: {"type": "enum", "name": name, "symbols": chosen, "default": chosen[0]}
    )


def avro_schemas(depth: int = 2, name: str = "r") -> st.SearchStrategy[Any]:
    """Schemas of few names, so that two of them often have to do with each other."""
    flat = st.sampled_from(PRIMITIVES) | enums(f"{name}e")
    if not depth:
        return flat
    inner = avro_schemas(depth - 1, f"{name}i")
    fixed = st.integers(1, 2).map(lambda size: {"type": "fixed", "name": f"{name}f", "size": size})
    return st.one_of(
        flat,
        fixed,
        inner.map(lambda items: {"type": "array", "items": items}),
        inner.map(lambda values: {"type": "map", "values": values}),
        st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=3, unique=True),
        records(inner, name),
    )


def records(inner: st.SearchStrategy[Any], name: str) -> st.SearchStrategy[Any]:
    def field(one: str) -> st.SearchStrategy[dict[str, Any]]:
        own = st.just(one)
        given = st.builds(lambda name, kind: {"name": name, "type": kind}, own, st.sampled_from(PRIMITIVES))
        usual = st.builds(
            lambda name, value: {"name": name, "type": "long", "default": value}, own, st.just(7)
        )
        return given | usual

    def build(fields: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": "record", "name": name, "namespace": "n", "fields": fields}

    return st.lists(st.sampled_from("xyz"), unique=True, max_size=3).flatmap(
        lambda names: st.tuples(*(field(one) for one in names)).map(lambda fields: build(list(fields)))
    )


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 6) | st.sampled_from((0.5, 1.0, 2.5, "", "a", "ab")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
SMALL = st.integers(0, 3)
TYPES = st.sampled_from(("null", "boolean", "integer", "number", "string", "array", "object"))


def json_schemas(depth: int = 2) -> st.SearchStrategy[Any]:
    """Schemas of few words, so that one often covers another."""
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(JSON_VALUES, min_size=1, max_size=3),
        "const": JSON_VALUES,
        **{
            name: SMALL
            for name in (
                "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
                "minItems", "maxItems", "minProperties", "maxProperties",
            )
        },
        "multipleOf": st.sampled_from((1, 2, 0.5)),
        "uniqueItems": st.booleans(),
        "pattern": st.sampled_from(("a", "^b")),
        "required": st.lists(st.sampled_from("xyz"), unique=True, max_size=2),
        "$ref": st.just("#/definitions/d"),
    }  # fmt: skip
    if depth:
        inner = json_schemas(depth - 1)
        some = st.lists(inner, min_size=1, max_size=2)
        keywords |= {
            "properties": st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
            "patternProperties": st.dictionaries(st.sampled_from(("x", "^y")), inner, max_size=1),
            "additionalProperties": inner,
            "items": inner | some,
            "additionalItems": inner,
            "contains": inner,
            "propertyNames": inner,
            "not": inner,
            "if": inner,
            "then": inner,
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
        }
    picked = st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True)
    return st.booleans() | picked.flatmap(
        lambda names: st.fixed_dictionaries({name: keywords[name] for name in names})
    )


def json_documents() -> st.SearchStrategy[Any]:
    return st.builds(
        lambda schema, part: schema if isinstance(schema, bool) else {**schema, "definitions": {"d": part}},
        json_schemas(),
        json_schemas(1).filter(lambda one: "$ref" not in str(one)),
    )
