from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import BadQuery
from distributary.model.field_mask import parse_field_mask

ROW = b'{"a":1.50,"b":{"c":[1,{"d":2.0}],"e":null,"x":"\\u00e9"},"f.g":12345678901234567890.10,"`":true}'


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ("a", b'{"a":1.50}'),
        (" a , b.e ", b'{"a":1.50,"b":{"e":null}}'),
        ("b.x,b.c", b'{"b":{"c":[1,{"d":2.0}],"x":"\\u00e9"}}'),
        ("b.c,b", b'{"b":{"c":[1,{"d":2.0}],"e":null,"x":"\\u00e9"}}'),
        ("b,b.c", b'{"b":{"c":[1,{"d":2.0}],"e":null,"x":"\\u00e9"}}'),
        ("`f.g`", b'{"f.g":12345678901234567890.10}'),
        ("````", b'{"`":true}'),
        ("f.g", b"{}"),
        ("none,a.b,b.c.d,b.none", b"{}"),
    ],
)
def test_project_keeps_values_byte_for_byte(fields: str, row: bytes) -> None:
    assert parse_field_mask(fields).project(ROW) == row


def test_equal_field_masks_have_equal_text() -> None:
    assert parse_field_mask("b.c,a,b.d") == parse_field_mask("b.d, `a`, b.c, a")
    assert parse_field_mask("b,b.c").text == parse_field_mask("b").text
    assert parse_field_mask("a.b").text != parse_field_mask("`a.b`").text


def test_project_of_a_row_that_is_not_an_object_is_empty() -> None:
    assert parse_field_mask("a").project(b"[1]") == b"{}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("", "a name at character 1"),
        ("a,", "a name at character 3"),
        ("a..b", "a name at character 3"),
        ("a,,b", "a name at character 3"),
        ("`a", "a name at character 1"),
        ("`a`b", "a comma at character 4"),
        ("a`b", "a comma at character 2"),
        (",".join(f"f{n}" for n in range(201)), "too many fields"),
        (".".join("a" * 33), "too many fields"),
    ],
)
def test_parse_error_names_the_character(fields: str, message: str) -> None:
    with pytest.raises(BadQuery, match=message) as caught:
        parse_field_mask(fields)
    assert caught.value.hint


NAMES = st.text(alphabet='ab.,` é"', min_size=1, max_size=3).filter(str.strip)
ROWS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=4)


def _wanted(row: Any, paths: list[list[str]]) -> dict[str, Any]:
    """The same, slowly and over values."""
    out: dict[str, Any] = {}
    for name in {path[0] for path in paths if path[0] in row}:
        rest = [path[1:] for path in paths if path[0] == name]
        if [] in rest:
            out[name] = row[name]
        elif isinstance(row[name], dict) and (inner := _wanted(row[name], rest)):
            out[name] = inner
    return out


@given(st.dictionaries(NAMES, ROWS, max_size=4), PATHS)
def test_project_agrees_with_the_reference_on_any_row(row: dict[str, Any], paths: list[list[str]]) -> None:
    text = ",".join(".".join("`" + name.replace("`", "``") + "`" for name in path) for path in paths)
    found = parse_field_mask(text).project(json.dumps(row).encode())
    assert json.loads(found) == _wanted(row, paths)


@given(st.lists(st.dictionaries(NAMES, ROWS, max_size=4), min_size=1, max_size=5), PATHS)
def test_projected_changes_fold_to_the_projected_row(
    rows: list[dict[str, Any]], paths: list[list[str]]
) -> None:
    """Successive rows, each as a reducer describes it: changed and removed fields."""
    fields = parse_field_mask(",".join(".".join("`" + n.replace("`", "``") + "`" for n in p) for p in paths))
    row = json.loads(fields.project(json.dumps(rows[0]).encode()))
    for old, new in itertools.pairwise(rows):
        differing = {n: v for n, v in new.items() if n not in old or old[n] != v}
        changed = {n: msgspec.Raw(json.dumps(v).encode()) for n, v in differing.items()}
        values, lost = fields.change(changed, [name for name in old if name not in new])
        row = {n: v for n, v in row.items() if n not in lost} | {n: json.loads(v) for n, v in values.items()}
        assert row == _wanted(new, paths)


def test_name_with_a_lone_surrogate_is_rejected() -> None:
    with pytest.raises(BadQuery, match="invalid Unicode"):
        parse_field_mask("price,\ud800")
