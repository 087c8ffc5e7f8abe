"""A client that sends one request at a time over a blocking socket.

It is for figures where the node does the requested work and nothing else.
"""

import socket
import ssl
from typing import Any, TypeVar

from benchmarks.canned import connect
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import decode
from log_service.protocol.frames import (
    SIZE_BYTES,
    RequestHeader,
    encode_request,
    parse_response_header,
)
from log_service.protocol.schema import Message

R = TypeVar("R", bound=Message)


class Wire:
    """One connection. This checkout encodes the requests, whichever node is at the other end."""

    def __init__(self, address: str) -> None:
        self._socket = connect(address)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Message, version: int, response_type: type[R]) -> R:
        """Send a request and return its response."""
        self.send(frame_of(request, version))
        return self.response(request, version, response_type)

    def response(self, request: Message, version: int, response_type: type[R]) -> R:
        """Return the response to a request that was sent before."""
        frame = self.receive()
        _, body = parse_response_header(_key_of(request), version, frame)
        return decode(response_type, version, frame, body)[0]

    def send(self, frame: bytes) -> None:
        """Send a request that ``frame_of`` has encoded."""
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """Return the next response, without its size.

        Raises:
            ConnectionError: the node closed the connection.
        """
        return self._exactly(int.from_bytes(self._exactly(SIZE_BYTES)))

    def _exactly(self, count: int) -> bytes:
        received = self._socket.recv(count, socket.MSG_WAITALL)
        if len(received) < count:
            raise ConnectionError("the node closed the connection")
        return received


class SecureWire(Wire):
    """A connection with TLS, made with a whole handshake."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        super().__init__(address)
        bare = self._socket
        try:
            self._socket = context.wrap_socket(bare, server_hostname=address.partition(":")[0])
        except BaseException:
            bare.close()
            raise

    def _exactly(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            part = self._socket.recv(count - len(received))
            if not part:
                raise ConnectionError("the node closed the connection")
            received += part
        return received


def frame_of(request: Message, version: int) -> bytes:
    """Return a request as it goes over the wire."""
    chunks: list[Any] = encode_request(
        RequestHeader(_key_of(request), version, 7, "bench"), request
    )
    return b"".join(chunks)


def _key_of(request: Message) -> ApiKey:
    assert request.SCHEMA.key is not None, "a request names its API"
    return ApiKey(request.SCHEMA.key)
