"""Regular expressions: which ones cannot be read in any syntax."""

import pytest

from log_service.http.schema_registry.languages.json_schema.regex_syntax import regex_fault

READABLE = [
    *(
        "",
        "^a+$",
        "a|b|",
        "()",
        "(a|)",
        "[]",
        "[^]",
        "[-a]",
        "[a-]",
        r"[\w-]",
        r"[\d-z]",
        r"[a-\d]",
        "[+--]",
        "[[:alpha:]]",
    ),
    *(
        "(?=a)b",
        "(?!a)b",
        "(?<=a)b",
        "(?<!a)b",
        r"(?<year>\d{4})-\k<year>",
        r"(a)\1",
        "(?:a)*",
        "(?i)a",
        "(?i:a)",
        "(?>a)",
    ),
    *(
        "a{2}",
        "a{2,}",
        "a{2,3}?",
        "a*?",
        "a++",
        "x{,3}",
        "{name}",
        "}",
        "]",
        "a{",
        r"\p{L}+",
        r"\u0041",
        r"\cA",
        r"^\/x$",
        "^*",
    ),
    '^(([^<>()]+(\\.[^<>]+)*)|(".+"))@(([^<>]+\\.)+[^<>]{2,})$',
]
UNREADABLE = {
    "(": "1 groups are not closed",
    "(?:a(b": "2 groups are not closed",
    "a)": "an unmatched ) at character 1",
    "[a": "an open class at character 0",
    "x[a\\": "an open class at character 1",
    "*a": "nothing to repeat for * at character 0",
    "(+a)": "nothing to repeat for + at character 1",
    "a|?": "nothing to repeat for ? at character 2",
    "a**": "nothing to repeat for * at character 2",
    "a*?+": "nothing to repeat for + at character 3",
    "a{2}{3}": "nothing to repeat for {3} at character 4",
    "a{3,2}": "a range that runs backwards, {3,2}, at character 1",
    "[z-a]": "a range that runs backwards, z-a, at character 0",
    "a\\": "a backslash at the end",
}


@pytest.mark.parametrize("regex", READABLE)
def test_an_expression_of_any_syntax_is_taken(regex: str) -> None:
    """Lookaheads, names and classes of Unicode are valid in some language of a client."""
    assert regex_fault(regex) is None


@pytest.mark.parametrize(("regex", "fault"), UNREADABLE.items())
def test_a_fault_of_every_syntax_is_named(regex: str, fault: str) -> None:
    """The message says where."""
    assert regex_fault(regex) == fault


@pytest.mark.parametrize(
    "regex",
    [
        "(" * 200_000,
        "(a*)*" * 100_000,
        "[" * 200_000,
        "(?a" * 100_000,
        "a{9" * 100_000,
        "[a-" * 100_000,
    ],
)
def test_a_long_expression_is_read_once(regex: str) -> None:
    """A hostile one costs no more than a friendly one: the time limit of the test run is the judge."""
    regex_fault(regex)
