"""Frames: the header before every request and response, and the four bytes of size before both.

This module only decides which header version belongs to which API version.
``parse_request_header`` takes a frame without its size, and ``encode_*`` return chunks with the
size. Headers are tuples and not dataclasses, because every request is parsed here.
"""

import struct
from functools import cache
from typing import NamedTuple

from log_service.common.errors import ProtocolError
from log_service.common.types import Buffer
from log_service.protocol.api_versions import KNOWN, ApiKey, header_versions
from log_service.protocol.codec import encoder
from log_service.protocol.reader import ends_early, not_text, overrun, read_uvarint, skip_tags
from log_service.protocol.schema import Chunk, Message
from log_service.protocol.writer import does_not_fit

SIZE_BYTES = 4

_new = tuple.__new__  # a named tuple's own is a function of Python's
_REQUEST_HEAD = struct.Struct(">hhih")
_REQUEST_PREFIX = struct.Struct(">ihhih")
_RESPONSE_PREFIX = struct.Struct(">ii")
_FLEXIBLE_RESPONSE_PREFIX = struct.Struct(">iix")
_INT32 = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The client and the API of a request. ``client_id`` is None if the client gave none."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None


class UnsupportedVersionError(ProtocolError):
    """A request in an unsupported version of an API that this software serves.

    ApiVersions requests then get a response of version 0.
    """

    def __init__(self, header: RequestHeader) -> None:
        spec = KNOWN[header.api_key]
        text = (
            f"{spec.name} v{header.api_version} is not served; versions are"
            f" {spec.min_version}-{spec.max_version}"
        )
        super().__init__(text)
        self.header = header


def parse_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """Return (header, offset of the body) of a frame without its size.

    Raises:
        UnsupportedVersionError: the API is served, but not in this version. The error has the
            header.
        ProtocolError: the bytes are not a header, or the API key is not served.
    """
    try:
        key, version, correlation_id, client_id_size = _REQUEST_HEAD.unpack_from(buffer)
    except struct.error:
        raise ends_early("request header", 0, len(buffer)) from None
    spec = KNOWN.get(key)
    if spec is None:
        message = (
            f"API key {key} (version {version}, correlation id {correlation_id}) is not served here"
        )
        raise ProtocolError(message)
    position = 10
    client_id = None
    if client_id_size >= 0:
        position += client_id_size
        if position > len(buffer):
            raise overrun("request header: client_id", client_id_size, len(buffer) - 10)
        try:
            client_id = str(buffer[10:position], "utf-8")
        except UnicodeDecodeError:
            raise not_text("request header: client_id", 10) from None
    elif client_id_size != -1:
        raise overrun("request header: client_id", client_id_size, len(buffer) - 10)
    header = _new(RequestHeader, (spec.key, version, correlation_id, client_id))
    if not spec.min_version <= version <= spec.max_version:
        raise UnsupportedVersionError(header)
    if version >= spec.first_flexible_version:
        position = _skip_header_tags(buffer, position, "request header")
    return header, position


def encode_request(header: RequestHeader, message: Message) -> list[Chunk]:
    """Return a whole request frame, with its size, as chunks.

    Raises:
        ProtocolError: the version is not served, or has no field for a value.
    """
    client_id = b"" if header.client_id is None else header.client_id.encode()
    client_id_size = -1 if header.client_id is None else len(client_id)
    request_header_version, _ = header_versions(header.api_key, header.api_version)
    try:
        head = _REQUEST_PREFIX.pack(
            0, header.api_key, header.api_version, header.correlation_id, client_id_size
        )
    except struct.error as error:
        raise does_not_fit("request header", error) from error
    tags = b"\0" if request_header_version == 2 else b""
    return _framed(bytearray(head + client_id + tags), message, header.api_version)


def encode_response(
    api_key: int, api_version: int, correlation_id: int, response: Message
) -> list[Chunk]:
    """Return a whole response frame, with its size, as chunks.

    A ``records`` value is a chunk of its own, even if it is empty.

    Raises:
        ProtocolError: the version is not served, or has no field for a value.
    """
    prefix = _response_prefix(api_key, api_version)
    return _framed(bytearray(prefix.pack(0, correlation_id)), response, api_version)


def parse_response_header(api_key: int, api_version: int, buffer: Buffer) -> tuple[int, int]:
    """Return (correlation id, offset of the body) of a response frame without its size.

    Raises:
        ProtocolError: the bytes are not a header, or the API is not served.
    """
    _, response_header_version = header_versions(api_key, api_version)
    correlation_id = parse_correlation_id(buffer)
    if response_header_version == 0:
        return correlation_id, 4
    return correlation_id, _skip_header_tags(buffer, 4, "response header")


def parse_correlation_id(buffer: Buffer) -> int:
    """Return the correlation id that every response frame begins with, whatever its API.

    Raises:
        ProtocolError: there are fewer than four bytes.
    """
    if len(buffer) < 4:
        raise ends_early("response header", 0, len(buffer))
    correlation_id: int = _INT32.unpack_from(buffer)[0]
    return correlation_id


@cache
def _response_prefix(api_key: int, api_version: int) -> struct.Struct:
    _, response_header_version = header_versions(api_key, api_version)
    return _FLEXIBLE_RESPONSE_PREFIX if response_header_version == 1 else _RESPONSE_PREFIX


def _framed(first: bytearray, message: Message, version: int) -> list[Chunk]:
    """Encode a message after the bytes ``first``, and return all chunks.

    The size of the frame is written into the first four bytes of ``first``.
    """
    chunks: list[Chunk] = []
    encoder(type(message), version)(message, first, chunks)
    size = (len(first) if len(chunks) == 1 else sum(map(len, chunks))) - SIZE_BYTES
    try:
        _INT32.pack_into(first, 0, size)
    except struct.error as error:
        raise does_not_fit("frame size", error) from error
    return chunks


def _skip_header_tags(buffer: Buffer, position: int, where: str) -> int:
    """Return the offset after a header's tagged fields. No known client sends any."""
    try:
        if buffer[position] == 0:
            return position + 1
        view = memoryview(buffer)
        count, position = read_uvarint(view, position)
        return skip_tags(view, position, len(view), count, where)
    except IndexError:
        raise ends_early(where, position, len(buffer)) from None
