"""Makes the bytes of one gRPC call for a probe, and decides whether the server has responded.

It opens no connection, because bytes are passed in and out. Headers are written as literals, which
every server reads (RFC 7541, section 6.2.2). Headers of a response are not decoded. Their arrival
alone proves that the server has handled the call.

Invariant: a call is the only one of its connection, and its stream has the number 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER_BYTES = 9
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, ACKNOWLEDGED, END_HEADERS = 1, 1, 4
STREAM = 1
MAX_FRAME_BYTES = 1 << 14
MAX_LITERAL_BYTES = 126
"""What the length of a literal may be if it is one byte."""
LONG_LITERAL = 127


def call_of(authority: str, method: str, message: bytes, token: str | None) -> bytes:
    """Return all bytes that a client sends: the preface of the connection, and one call.

    Raises:
        ValueError: the message is too large for one frame.
    """
    if len(message) + 5 > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(message)} bytes does not fit into one frame")
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *([("authorization", f"Bearer {token}")] if token else []),
    ]
    prefixed = b"\0" + len(message).to_bytes(4) + message
    return b"".join(
        [
            PREFACE,
            frame(SETTINGS, 0, 0, b""),
            frame(HEADERS, END_HEADERS, STREAM, header_block(headers)),
            frame(DATA, END_STREAM, STREAM, prefixed),
        ]
    )


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return an HTTP/2 frame."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def header_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """Return headers as literals that the server does not index."""
    return b"".join(
        b"\0" + literal(name.encode("ascii")) + literal(value.encode("ascii"))
        for name, value in headers
    )


def literal(text: bytes) -> bytes:
    """Return a text as an HPACK string literal: its length and the uncompressed bytes."""
    if len(text) <= MAX_LITERAL_BYTES:
        return bytes([len(text)]) + text
    rest, parts = len(text) - LONG_LITERAL, bytearray([LONG_LITERAL])
    while rest >= 128:
        parts.append(rest % 128 + 128)
        rest //= 128
    parts.append(rest)
    return bytes(parts) + text


@dataclass(slots=True)
class ResponseWatch:
    """Reads the server's bytes, to find out whether it has responded.

    ``has_responded`` is None until it is known. Bytes that have to be sent are in ``to_send``, from
    which ``take`` removes them.
    """

    has_responded: bool | None = None
    to_send: bytearray = field(default_factory=bytearray)
    _unread: bytearray = field(default_factory=bytearray)

    def receive(self, received: bytes) -> None:
        """Read received bytes of the connection. Empty bytes mean its end."""
        if not received:
            self.has_responded = self.has_responded or False
        self._unread += received
        while self.has_responded is None and len(self._unread) >= FRAME_HEADER_BYTES:
            length = int.from_bytes(self._unread[:3])
            kind, flags, stream = (
                self._unread[3],
                self._unread[4],
                int.from_bytes(self._unread[5:9]) & 0x7FFFFFFF,
            )
            if length > MAX_FRAME_BYTES:
                self.has_responded = False
                return
            if len(self._unread) < FRAME_HEADER_BYTES + length:
                return
            del self._unread[: FRAME_HEADER_BYTES + length]
            self._on_frame(kind, flags, stream)

    def _on_frame(self, kind: int, flags: int, stream: int) -> None:
        if kind == HEADERS and stream == STREAM:
            self.has_responded = True
        elif kind == GOAWAY or (kind == RST_STREAM and stream == STREAM):
            self.has_responded = False
        elif kind == SETTINGS and not flags & ACKNOWLEDGED:
            self.to_send += frame(SETTINGS, ACKNOWLEDGED, 0, b"")

    def take(self) -> bytes:
        """Return the bytes that have to be sent now."""
        taken = bytes(self.to_send)
        self.to_send.clear()
        return taken
