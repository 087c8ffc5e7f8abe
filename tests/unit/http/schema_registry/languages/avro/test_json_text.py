"""JSON as Jackson reads and prints it."""

import pytest

from log_service.http.schema_registry.languages.avro.json_text import (
    java_double,
    json_text,
    parse_json,
)
from log_service.http.schema_registry.languages.language import InvalidSchemaError

PRINTED = {
    "-0": "0",
    "-0.0": "-0.0",
    "1.10": "1.1",
    "1E5": "100000.0",
    "1e7": "1.0E7",
    "9999999.5": "9999999.5",
    "12345678.5": "1.23456785E7",
    "0.001": "0.001",
    "0.00099": "9.9E-4",
    "1e-400": "0.0",
    "1e400": '"Infinity"',
    "-1e400": '"-Infinity"',
    "9223372036854775808": "9223372036854775808",
    '"\\u001f\\u007f\\u00e9\\/\\b\\u2028"': '"\\u001F\x7fé/\\b\u2028"',
    '"\\ud83d\\ude00"': '"😀"',
    ' {"b" : 1, "a" : [ null, true ], "b" : {} } ': '{"b":{},"a":[null,true]}',
    '/* "a" */ [1 // one\n, /*/ 2, */ "/* no */" ]': '[1,"/* no */"]',
}


@pytest.mark.parametrize(("written", "printed"), PRINTED.items())
def test_a_value_is_printed_as_jackson_does(written: str, printed: str) -> None:
    """Doubles have Java's form, and only what must be escaped is."""
    assert json_text(parse_json(written, nesting=9)) == printed


def test_keys_are_sorted_by_units_of_utf_16() -> None:
    """A character beyond the first plane is two units, which are smaller than those behind them."""
    assert (
        json_text({"\ue000": 1, "😀": [{"b": 1, "a": 2}]}, is_sorted=True)
        == '{"😀":[{"a":2,"b":1}],"\ue000":1}'
    )


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (5e-324, "4.9E-324"),
        (2e23, "2.0E23"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_a_double_has_the_fewest_digits(number: float, printed: str) -> None:
    """Java prints so from version 19 on (JDK-4511638)."""
    assert java_double(number) == printed


WRONG = {
    "": "the schema is empty",
    " \n": "the schema is empty",
    "string": "line 1, column 1: expecting value",
    "{'type': 1}": "line 1, column 2: expecting property name",
    '{"type":\n "int",}': "line 2, column 8: expecting property name",
    '"int" x': "line 1, column 7: a second value begins",
    '"int" // x': "line 1, column 7: a second value begins",
    '/* "int"': "line 1, column 1: expecting value",
    '["NaN",\n NaN]': "line 2, column 2: NaN is not a number of JSON",
    "[-Infinity]": "line 1, column 2: -Infinity is not a number of JSON",
    "[01]": "line 1, column 3: expecting ',' delimiter",
    '"a\tb"': "line 1, column 3: invalid control character",
    '"a\\x"': "line 1, column 3: invalid \\escape",
    "\ufeff1": "line 1, column 1: expecting value",
    "[[[[1]]]]": "line 1, column 4: more than 3 brackets are open",
    '"\\ud800"': "the text is not Unicode",
    '{"\\uDfff": 1}': "the text is not Unicode",
    "1" * 1001: "the number 11111111111111111111... has more than 1000 characters",
    "0." + "1" * 1001: "the number 0.111111111111111111... has more than 1000 characters",
}


@pytest.mark.parametrize(("written", "message"), WRONG.items(), ids=[each[:20] for each in WRONG])
def test_what_is_no_json_is_refused_with_line_and_column(written: str, message: str) -> None:
    """Java's library refuses these, too, except for half a surrogate pair, which it loses."""
    with pytest.raises(InvalidSchemaError) as refused:
        parse_json(written, nesting=3)
    assert message in str(refused.value)
