"""URIs, by the examples of RFC 3986."""

import pytest

from log_service.http.schema_registry.languages.json_schema.uris import (
    fragment_of,
    join,
    without_fragment,
)

BASE = "http://a/b/c/d;p?q"
NORMAL = {
    "g:h": "g:h",
    "g": "http://a/b/c/g",
    "./g": "http://a/b/c/g",
    "g/": "http://a/b/c/g/",
    "/g": "http://a/g",
    "//g": "http://g",
    "?y": "http://a/b/c/d;p?y",
    "g?y": "http://a/b/c/g?y",
    "#s": "http://a/b/c/d;p?q#s",
    "g#s": "http://a/b/c/g#s",
    ";x": "http://a/b/c/;x",
    "": "http://a/b/c/d;p?q",
    ".": "http://a/b/c/",
    "./": "http://a/b/c/",
    "..": "http://a/b/",
    "../g": "http://a/b/g",
    "../..": "http://a/",
    "../../g": "http://a/g",
    "../../../g": "http://a/g",
    "/./g": "http://a/g",
    "/../g": "http://a/g",
    "g.": "http://a/b/c/g.",
    "..g": "http://a/b/c/..g",
    "./../g": "http://a/b/g",
    "./g/.": "http://a/b/c/g/",
    "g/./h": "http://a/b/c/g/h",
    "g/../h": "http://a/b/c/h",
    "g;x=1/../y": "http://a/b/c/y",
    "http:g": "http:g",
}


@pytest.mark.parametrize(("reference", "expected"), NORMAL.items())
def test_a_reference_is_joined_as_the_standard_says(reference: str, expected: str) -> None:
    """These are the examples of section 5.4."""
    assert join(BASE, reference) == expected


@pytest.mark.parametrize(
    ("base", "reference", "expected"),
    [
        ("", "other.json", "other.json"),
        ("", "./other.json", "other.json"),
        ("a.json", "b.json", "b.json"),
        ("a/b.json", "../c.json", "c.json"),
        ("urn:x:y", "#/a", "urn:x:y#/a"),
        ("mem://input", "x", "mem://input/x"),
        ("http://a", "\x00 {", "http://a/\x00 {"),
    ],
)
def test_any_scheme_and_any_text_can_be_joined(base: str, reference: str, expected: str) -> None:
    """Nothing is refused, because nothing is fetched."""
    assert join(base, reference) == expected


def test_a_fragment_is_decoded() -> None:
    """References escape characters of JSON pointers."""
    assert fragment_of("a#/b%20c%25") == "/b c%"
    assert (without_fragment("a#b"), fragment_of("a")) == ("a", "")
