"""Records in the body of a request: what their fields become, and what is refused."""

from typing import Any

import pytest

from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v1.lines import shown_headers
from log_service.http.rest_proxy.v1.produce import encoding_of, require_json
from log_service.http.rest_proxy.v1.records import record_of
from log_service.http.server.values import HttpRequest


@pytest.mark.parametrize(
    ("value", "encoding", "data"),
    [
        ("text", "auto", b"text"),
        ({"a": "ä"}, "auto", '{"a":"ä"}'.encode()),
        (7, "auto", b"7"),
        (None, "auto", None),
        ("text", "json", b'"text"'),
        ("text", "string", b"text"),
        ("/w==", "binary", b"\xff"),
    ],
)
def test_a_value_becomes_bytes(value: object, encoding: str, data: bytes | None) -> None:
    found = record_of({"key": value, "value": value}, 1, encoding)
    assert (found.key, found.value) == (data, data)


def test_headers_of_a_stream_can_be_sent_again() -> None:
    headers = (("a", b"x"), ("a", None), ("b", b"\xff"))
    found = record_of({"value": 1, "headers": shown_headers(headers)}, 1, "auto")
    assert found.headers == headers
    assert record_of({"value": 1, "headers": {"a": "x"}}, 1, "auto").headers == (("a", b"x"),)


def test_a_time_is_iso_8601_or_milliseconds() -> None:
    for text in ("1970-01-01T00:00:00.005Z", 5):
        assert record_of({"value": 1, "timestamp": text}, 1, "auto").timestamp_ms == 5


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "has a value"),
        ({"value": 1, "partition_id": 0}, "unrecognized"),
        ({"value": 1, "partition": 2}, "Partition 2"),
        ({"value": 1, "partition": "x"}, "whole number"),
        ({"value": 1, "headers": "x"}, "headers"),
        ({"value": 1, "headers": [["a"]]}, "pair"),
        ({"value": 1, "headers": {"a": {"base64": "?"}}}, "base64"),
        ({"value": 1, "headers": {"a": 7}}, "JSON object"),
        ({"value": 1, "timestamp": "today"}, "ISO 8601"),
    ],
)
def test_a_wrong_record_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(RestError, match=words):
        record_of(fields, 2, "auto")


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
)
def test_a_body_that_any_page_can_send_is_refused(content_type: str) -> None:
    """These are the types that a browser sends to other sites without asking first."""
    request = HttpRequest(method="POST", path="/", headers={"content-type": content_type})
    with pytest.raises(RestError, match="x-ndjson") as refused:
        require_json(request)
    assert refused.value.status == 415


def test_json_types_are_taken() -> None:
    for content_type in ("application/json; charset=utf-8", "application/x-ndjson"):
        require_json(HttpRequest(method="POST", path="/", headers={"content-type": content_type}))


@pytest.mark.parametrize("query", [("encoding", "xml"), ("form", "json")])
def test_a_wrong_parameter_is_refused(query: tuple[str, str]) -> None:
    with pytest.raises(RestError, match="encoding"):
        encoding_of(HttpRequest(method="POST", path="/", query=(query,)))
