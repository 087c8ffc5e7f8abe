"""One connection to a broker sends any request in any version, and bytes that no client would send.

It needs no client library.
"""

import socket
import struct
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from log_service.protocol.api_versions import ApiKey, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_request, parse_response_header

WAIT_SECONDS = 20.0


class Wire:
    """A connection; ``with`` closes it. Responses come in the order of the requests."""

    def __init__(self, bootstrap: str, *, receive_buffer_bytes: int | None = None) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(WAIT_SECONDS)
        try:
            self._socket.connect((host, int(port)))
        except OSError:
            self._socket.close()
            raise
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def finish(self) -> None:
        """Say that nothing more will be sent; responses may still come."""
        with suppress(OSError):  # the other side may have gone already
            self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close so that the other side sees a reset connection."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def ask(self, request: Any, version: int) -> Any:
        """Send a request and return its response."""
        self.send(request, version)
        return self.receive(ApiKey(request.SCHEMA.key), version)

    def send(self, request: Any, version: int) -> None:
        """Send a request; ``receive`` gets its response."""
        self._correlation_id += 1
        header = RequestHeader(ApiKey(request.SCHEMA.key), version, self._correlation_id, "wire")
        chunks: list[Any] = list(encode_request(header, request))
        self.send_bytes(b"".join(chunks))

    def receive(self, api_key: ApiKey, version: int) -> Any:
        """Return the next response."""
        frame = self.receive_frame()
        _, body = parse_response_header(api_key, version, frame)
        message, end = decode(response_class(api_key), version, frame, body)
        assert end == len(frame), f"{len(frame) - end} bytes behind the response"
        return message

    def send_bytes(self, content: bytes) -> None:
        """Send exactly these bytes."""
        self._socket.sendall(content)

    def send_frame(self, content: bytes) -> None:
        """Send bytes with their size before them."""
        self.send_bytes(struct.pack(">i", len(content)) + content)

    def send_header(
        self,
        api_key: int,
        version: int,
        body: bytes = b"",
        correlation_id: int = 7,
        *,
        is_flexible: bool = False,
    ) -> None:
        """Send a frame with a good header, or one that claims things, before any body."""
        client_id = b"wire"
        header = struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id
        self.send_frame(header + (b"\0" if is_flexible else b"") + body)

    def receive_frame(self) -> bytes:
        """Return the next frame without its size.

        Raises:
            ConnectionError: the broker closed the connection.
        """
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def receive_exactly(self, count: int) -> bytes:
        """Return that many bytes. Raises ConnectionError if the connection ends before."""
        content = b""
        while len(content) < count:
            part = self._socket.recv(count - len(content))
            if not part:
                raise ConnectionError(f"the connection ended after {len(content)} of {count} bytes")
            content += part
        return content

    def is_closed_by_broker(self, seconds: float = WAIT_SECONDS) -> bool:
        """Whether the broker closes the connection, without a response, within a time."""
        self._socket.settimeout(seconds)
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                if not self._socket.recv(65_536):
                    return True
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return False
