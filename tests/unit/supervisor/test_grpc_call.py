"""A probe reads a connection of HTTP/2, however the bytes come in."""

import pytest

from log_service.supervisor.grpc_call import (
    ACKNOWLEDGED,
    DATA,
    GOAWAY,
    HEADERS,
    MAX_FRAME_BYTES,
    RST_STREAM,
    SETTINGS,
    STREAM,
    ResponseWatch,
    call_of,
    frame,
    literal,
)

GREETING = frame(SETTINGS, 0, 0, b"\0" * 6) + frame(SETTINGS, ACKNOWLEDGED, 0, b"")
TRUE = frame(HEADERS, 4, STREAM, b"\x88")


@pytest.mark.parametrize(
    ("sent", "has_responded"),
    [
        (GREETING, None),
        (GREETING + TRUE, True),
        (GREETING + frame(HEADERS, 4, 3, b"\x88"), None),
        (GREETING + frame(DATA, 0, STREAM, b"x" * 100), None),
        (GREETING + frame(RST_STREAM, 0, STREAM, b"\0" * 4) + TRUE, False),
        (GREETING + frame(GOAWAY, 0, 0, b"\0" * 8) + TRUE, False),
        ((MAX_FRAME_BYTES + 1).to_bytes(3) + bytes(6), False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_headers_of_the_call_are_its_response(
    sent: bytes, has_responded: bool | None, size: int
) -> None:
    watch = ResponseWatch()
    for at in range(0, len(sent), size):
        watch.receive(sent[at : at + size])
    assert watch.has_responded is has_responded
    watch.receive(b"")
    assert watch.has_responded is bool(has_responded)


def test_settings_are_acknowledged_once() -> None:
    watch = ResponseWatch()
    watch.receive(GREETING)
    assert (watch.take(), watch.take()) == (frame(SETTINGS, ACKNOWLEDGED, 0, b""), b"")


@pytest.mark.parametrize(
    ("length", "prefix"),
    [(0, "00"), (126, "7e"), (127, "7f00"), (128, "7f01"), (254, "7f7f"), (255, "7f8001")],
)
def test_the_length_of_a_literal_is_written_as_hpack_has_it(length: int, prefix: str) -> None:
    assert literal(b"x" * length) == bytes.fromhex(prefix) + b"x" * length


def test_a_message_that_fits_into_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="16384 bytes"):
        call_of("localhost:1", "/a.B/C", b"x" * MAX_FRAME_BYTES, None)
