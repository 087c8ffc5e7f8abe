"""One request in, one response out: what is refused, and with which status."""

import pytest

from log_service.metrics.http_page import (
    MAX_HEAD_BYTES,
    PageRequest,
    Refusal,
    chunk,
    page_head,
    parse_request,
    refusal_response,
)


def test_a_request_is_read_once_its_head_is_complete() -> None:
    whole = b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\n\r\n"
    assert all(parse_request(whole[:length]) is None for length in range(len(whole)))
    assert parse_request(whole) == PageRequest(
        path="/metrics", is_head=False, is_chunked=True, hosts=("x",)
    )


def test_old_clients_and_head_requests_are_told_apart() -> None:
    assert parse_request(b"HEAD / HTTP/1.0\r\n\r\n") == PageRequest(
        path="/", is_head=True, is_chunked=False
    )
    assert parse_request(b"GET / HTTP/1.1\n\n") == PageRequest(
        path="/", is_head=False, is_chunked=True
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "x"])
def test_other_methods_are_not_allowed(method: str) -> None:
    found = parse_request(f"{method} /metrics HTTP/1.1\r\n\r\n".encode())
    assert isinstance(found, Refusal)
    assert found.status == 405
    assert b"Allow: GET, HEAD\r\n" in refusal_response(found)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"GET /metrics",
        b"GET  HTTP/1.1",
        b"GET / HTTP/2.0",
        b"\x00\x00\x00\x12\x00\x03",
        b"\xff /x HTTP/1.1",
    ],
)
def test_what_is_not_http_is_a_bad_request(line: bytes) -> None:
    found = parse_request(line + b"\r\n\r\n")
    assert isinstance(found, Refusal)
    assert found.status == 400


def test_a_head_that_never_ends_is_refused_by_its_size() -> None:
    start = b"GET / HTTP/1.1\r\n"
    assert parse_request(start + b"a" * (MAX_HEAD_BYTES - len(start))) is None
    found = parse_request(start + b"a" * MAX_HEAD_BYTES)
    assert isinstance(found, Refusal)
    assert found.status == 431


def test_responses_have_a_length_or_end_with_the_connection() -> None:
    refused = refusal_response(Refusal(status=404, text="see /metrics"))
    head, _, body = refused.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert b"Content-Length: %d" % len(body) in head
    assert refusal_response(Refusal(status=404, text="see /metrics"), is_head=True).endswith(
        b"\r\n\r\n"
    )
    assert b"chunked" in page_head("text/plain", is_chunked=True)
    assert b"chunked" not in page_head("text/plain", is_chunked=False)
    assert b"".join(chunk(b"x" * 17)) == b"11\r\n" + b"x" * 17 + b"\r\n"
