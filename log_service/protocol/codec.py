"""Decoding and encoding of any generated message in any supported version.

This module finds the function that was compiled for (class, version), or compiles it at first use,
and calls it. It knows no APIs and no frames. A decoded ``records`` value is a view of the input,
and everything else is copied. Any fault of the input raises a ``ProtocolError``.
"""

from functools import cache
from typing import TypeVar

from log_service.common.errors import ProtocolError
from log_service.common.types import Buffer
from log_service.protocol.compile_decoder import Decoder, compile_decoder
from log_service.protocol.compile_encoder import Encoder, compile_encoder
from log_service.protocol.schema import Chunk, Message, has_version

M = TypeVar("M", bound=Message)

MAX_ELEMENTS = 1_000_000
"""List elements that one message may have in all: what bounds the memory that a frame full of empty
elements can claim.
"""

MAX_REQUEST_ELEMENTS = 200_000
"""The most elements of a request. It is lower, because senders are not trusted, and decoding that
many takes tenths of a second and tens of megabytes.

APIs that clients ask have lower bounds of their own (``broker.registry``).
"""


def decode(
    cls: type[M], version: int, buffer: Buffer, offset: int = 0, *, max_elements: int = MAX_ELEMENTS
) -> tuple[M, int]:
    """Return (message, offset after it). The buffer ends where the frame ends.

    Raises:
        TooManyElementsError: the message has more than ``max_elements`` list elements in all.
        ProtocolError: the bytes are not this message, or the version is not supported.
    """
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    message, end = decoder(cls, version)(view, offset, max_elements)
    return message, end


def encode(message: Message, version: int) -> bytes:
    """Return the message's bytes. A ``records`` value must be bytes, and is copied.

    Raises:
        ProtocolError: this version has no field for a value, or is not supported.
    """
    chunks: list[Chunk] = []
    encoder(type(message), version)(message, bytearray(), chunks)
    return b"".join(chunks)  # type: ignore[arg-type]


def encode_chunks(message: Message, version: int, prefix: Buffer = b"") -> list[Chunk]:
    """Return the message as chunks, the first of which is a bytearray that begins with ``prefix``.

    A ``records`` value is a chunk of its own and is not copied. Raises as ``encode``.
    """
    chunks: list[Chunk] = []
    encoder(type(message), version)(message, bytearray(prefix), chunks)
    return chunks


@cache
def decoder(cls: type[Message], version: int) -> Decoder:
    """Return the compiled decoder, which is compiled at first use.

    Raises:
        ProtocolError: this version is not supported.
    """
    _check(cls, version)
    return compile_decoder(cls, version)


@cache
def encoder(cls: type[Message], version: int) -> Encoder:
    """Return the compiled encoder, which is compiled at first use.

    Raises:
        ProtocolError: this version is not supported.
    """
    _check(cls, version)
    return compile_encoder(cls, version)


def _check(cls: type[Message], version: int) -> None:
    if not has_version(cls.SCHEMA.valid, version):
        message = (
            f"{cls.SCHEMA.name} v{version} is not spoken here; versions are {cls.SCHEMA.valid}"
        )
        raise ProtocolError(message)
