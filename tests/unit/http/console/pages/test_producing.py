"""The fields of a form become the bytes of a record, within bounds."""

import pytest

from log_service.http.console.pages.records.producing import MAX_HEADERS, headers_of, part_bytes
from log_service.http.server.values import HttpError


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("text", "a\nb", b"a\nb"),
        ("json", '{"a": 1}', b'{"a": 1}'),
        ("base64", "AAEC", b"\0\1\2"),
        ("null", "anything", None),
        ("text", "", b""),
    ],
)
def test_a_value_has_the_bytes_of_its_format(kind: str, text: str, found: bytes | None) -> None:
    assert part_bytes({"value": text, "value_format": kind}, "value") == found


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json", "{"),
        ("json", "NaN"),
        pytest.param("json", "[" * 30_000, id="deep"),
        pytest.param("json", f"[{'1,' * 300_000}1]", id="long"),
        ("base64", "!"),
        ("avro", "1"),
    ],
)
def test_a_value_that_is_refused_names_its_field(kind: str, text: str) -> None:
    """A JSON text that is long or deep would hold up all other people while it is read."""
    with pytest.raises(HttpError, match="value") as caught:
        part_bytes({"value": text, "value_format": kind}, "value")
    assert caught.value.status == 400


def test_headers_stand_in_lines_and_are_few() -> None:
    assert headers_of("a=1=2\n\nb=") == [("a", b"1=2"), ("b", b"")]
    with pytest.raises(HttpError, match=f"at most {MAX_HEADERS} lines"):
        headers_of("\n" * 1_000_000)
