"""Media types: which one a client prefers, and what a body's type says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.http.server.negotiation import MediaType, best_media_type, parse_media_type

V1 = "application/vnd.schemaregistry.v1+json"
OLD = "application/vnd.schemaregistry+json"
JSON = "application/json"


@pytest.mark.parametrize(
    ("accept", "best"),
    [
        (None, V1),
        ("", V1),
        ("*/*", V1),
        (V1, V1),
        (JSON, JSON),
        (f"{V1}, {OLD}, {JSON}", V1),
        (f"{JSON}, {V1}", V1),
        (f"{JSON}, {V1};q=0.9", JSON),
        (f"{OLD}; q=0.2, {JSON}; q=0.1", OLD),
        ("application/*", V1),
        (f"application/*;q=0.5, {JSON}", JSON),
        (f"{V1};q=0, */*;q=0.1", OLD),
        (f"{V1};q=0, {OLD};q=0, */*", JSON),
        ("APPLICATION/JSON", JSON),
        ("application/json;charset=utf-8", JSON),
        ("text/html, */*;q=0.01", V1),
        ("text/html", None),
        ("*/json", JSON),
        ("*/xml", None),
        ("*/*;q=0", None),
        ("application/json;q=0", None),
        ("nonsense", V1),
        ("nonsense, application/json", JSON),
        ("application/json;q=2, */*;q=0.1", V1),
        ('application/json;x="a;q=0", text/html', JSON),
    ],
)
def test_the_best_offered_type_wins(accept: str | None, best: str | None) -> None:
    """A specific range counts before a general one, and the first offer among equals."""
    assert best_media_type(accept, (V1, OLD, JSON)) == best


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("application/json", MediaType(name="application/json")),
        (
            " Text/HTML ; Charset=UTF-8;x=y",
            MediaType(name="text/html", parameters={"charset": "UTF-8", "x": "y"}),
        ),
        (r'a/b; c="d\"e;f"; g=""', MediaType(name="a/b", parameters={"c": 'd"e;f', "g": ""})),
        ("a/b;", MediaType(name="a/b")),
        ("", None),
        ("a", None),
        ("a/b c", None),
        ("a/b/c", None),
    ],
)
def test_a_media_type_has_its_parameters(text: str, expected: MediaType | None) -> None:
    """Names are in lower case, and quoted values lose their quotes."""
    assert parse_media_type(text) == expected


@given(st.text())
def test_no_header_is_an_error(text: str) -> None:
    """Any text of a client's gets one of the offers or none."""
    assert best_media_type(text, (V1, JSON)) in {V1, JSON, None}
    parse_media_type(text)


def test_a_long_header_takes_no_long_time() -> None:
    """The number of ranges that are read is bounded."""
    assert best_media_type(f"text/html,{'a/b,' * 100_000}{JSON}", (JSON,)) is None
    parse_media_type("a/b" + ';c="' * 20_000)
