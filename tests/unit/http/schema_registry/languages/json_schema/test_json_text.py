"""JSON text: what is refused and where, and how values are printed."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.http.schema_registry.languages.json_schema.json_text import (
    Json,
    print_json,
    read_json,
    validate_unicode,
    value_key,
)
from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import USUAL_LIMITS, SchemaLimits


def printed(text: str) -> str:
    return print_json(read_json(text, USUAL_LIMITS))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{ "b" : 1 ,\n"a":[ true,false , null ] }', '{"b":1,"a":[true,false,null]}'),
        ("{}", "{}"),
        ("[]", "[]"),
        ("[1.0, 1.10, 0.0000001, 1e400, 1E+2, 12e-1]", "[1.0,1.10,1E-7,1E+400,1E+2,1.2]"),
        ("[-0, -0.0, 123456789012345678901234567890]", "[0,0.0,123456789012345678901234567890]"),
        (
            r'"\u0041\u00e9\/\"\\\b\f\n\r\t\u001f\u007f"',
            '"A\u00e9/\\"\\\\\\b\\f\\n\\r\\t\\u001F\x7f"',
        ),
        (r'"\ud83d\ude00"', '"\U0001f600"'),
        ('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}'),
    ],
)
def test_text_is_printed_as_jackson_does(text: str, expected: str) -> None:
    """Names keep their order, and numbers keep their digits."""
    assert printed(text) == expected


def test_names_are_sorted_by_their_utf_16_units() -> None:
    """Java compares strings by 16-bit units, so that a smiley comes before a private character."""
    assert (
        print_json({"\ue000": 1, "\U0001f600": {"b": 1, "a": 2}}, is_sorted=True)
        == '{"\U0001f600":{"a":2,"b":1},"\ue000":1}'
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":\n  [1,}', "line 2, column 6: "),
        ("", "line 1, column 1: "),
        ("{} {}", "line 1, column 4: Extra data"),
        ('{"a": NaN}', "line 1, column 7: NaN is not a number in JSON"),
        ("[1,\n-Infinity]", "line 2, column 2: Infinity is not a number in JSON"),
        ('"\x01"', "line 1, column 2: "),
        ("\ufeff{}", "line 1, column 1: "),
        ("[" * 101, "line 1, column 101: nested deeper than 100 levels"),
        ("1" * 1_001, "the number 11111111111111111111... has 1001 digits, the limit is 1000"),
        ("1e1001", "the number 1e1001 has an exponent beyond 1000"),
        (
            "1e-99999999999999999999",
            "the number 1e-9999999999999999999 has an exponent beyond 1000",
        ),
        ('"\ud800"', "half of a surrogate pair at character 1"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, expected: str) -> None:
    """A message begins with line and column, where they are known."""
    with pytest.raises(InvalidSchemaError) as refused:
        read_json(text, USUAL_LIMITS)
    assert str(refused.value).startswith(expected)


def test_escaped_halves_of_a_surrogate_pair_are_refused_when_they_are_printed() -> None:
    """They would not fit into a record of UTF-8."""
    with pytest.raises(InvalidSchemaError, match="half of a surrogate pair"):
        validate_unicode(printed(r'"\ud800"'))


def test_brackets_and_names_in_strings_do_not_count() -> None:
    """Only the structure is bounded."""
    assert printed('["' + "[{" * 200 + r"\"NaN\"" + '"]')


@pytest.mark.parametrize(
    "text", ['"\\"' * 300_000, "[" * 1_000_000, '"' + "\\" * 999_999, '{"a":' * 200_000]
)
def test_hostile_text_is_refused_without_recursion(text: str) -> None:
    """Each character is read once."""
    with pytest.raises(InvalidSchemaError):
        read_json(text, USUAL_LIMITS)


def test_a_text_over_the_bound_is_refused() -> None:
    """The bound counts bytes, not characters."""
    limits = SchemaLimits(text_bytes=5)
    assert read_json('"\u00e9"', limits) == "\u00e9"
    with pytest.raises(InvalidSchemaError, match="the schema has 6 bytes, the limit is 5"):
        read_json('"\u00e9\u00e9"', limits)


values: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.decimals(allow_nan=False, allow_infinity=False, places=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values)
def test_what_is_printed_is_read_again(value: Json) -> None:
    """Reading gives the same value, and Python's own reader agrees."""
    text = print_json(value)
    assert print_json(read_json(text, USUAL_LIMITS)) == text
    assert json.loads(text, parse_float=Decimal) == value


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        (1, Decimal("1.0"), True),
        (1, True, False),
        (0, False, False),
        ({"a": 1, "b": [2]}, {"b": [Decimal(2)], "a": 1}, True),
        ([1, 2], [2, 1], False),
        ("1", 1, False),
        (None, False, False),
        ([], {}, False),
    ],
)
def test_a_key_tells_values_apart_as_json_schema_does(
    one: Json, other: Json, are_equal: bool
) -> None:
    """Numbers are equal by value, and never equal to a boolean."""
    assert (value_key(one) == value_key(other)) == are_equal
