"""How stored messages are framed: metadata records by uvarints, keys and values of coordinator logs
by an int16.

A metadata record is uvarint 1 (frame version), uvarint key of its class, uvarint version, body. A
coordinator's key is its record type and a body that has one version only; a value is its version
and the body. Decides nothing about what is stored; knows no logs.
"""

import struct
from collections.abc import Mapping
from typing import TypeVar

from log_service.common.errors import ProtocolError
from log_service.common.types import Buffer
from log_service.protocol.codec import decode, encode_chunks
from log_service.protocol.reader import ends_early, read_uvarint
from log_service.protocol.schema import Message, version_span
from log_service.protocol.stored.metadata_records import METADATA_RECORD_CLASSES, MetadataRecord
from log_service.protocol.writer import uvarint

M = TypeVar("M", bound=Message)

METADATA_FRAME_VERSION = 1

_INT16 = struct.Struct(">h")


class UnknownRecordTypeError(ProtocolError):
    """A stored record of a type that this version of the software does not have."""

    def __init__(self, what: str, record_type: int) -> None:
        super().__init__(
            f"{what} {record_type} is not known; it was written by a newer version, or is not one"
            " of these records"
        )
        self.record_type = record_type


def highest_version(cls: type[Message]) -> int:
    """Return the newest version of a stored message that we write."""
    return version_span(cls.SCHEMA.valid)[1]


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    """Return the value of a record of the metadata log.

    Raises:
        ProtocolError: the version does not exist, or cannot carry a value.
    """
    key = record.SCHEMA.key
    assert key is not None
    prefix = bytes((METADATA_FRAME_VERSION,)) + uvarint(key) + uvarint(version)
    return _joined(record, version, prefix)


def decode_metadata_record(buffer: Buffer) -> MetadataRecord:
    """Return the record that a value of the metadata log holds.

    Raises:
        UnknownRecordTypeError: no such record here.
        ProtocolError: anything else that is wrong with the bytes, also bytes left over.
    """
    view = memoryview(buffer)
    try:
        frame_version, position = read_uvarint(view, 0)
        key, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
    except IndexError:
        raise ends_early("metadata record", 0, len(view)) from None
    if frame_version != METADATA_FRAME_VERSION:
        message = f"metadata record: frame version {frame_version} is not {METADATA_FRAME_VERSION}"
        raise ProtocolError(message)
    cls = METADATA_RECORD_CLASSES.get(key)
    if cls is None:
        raise UnknownRecordTypeError("metadata record", key)
    record, end = decode(cls, version, view, position)
    if end != len(view):
        message = f"{cls.SCHEMA.name} v{version}: {len(view) - end} bytes too many"
        raise ProtocolError(message)
    return record


def encode_versioned(message: Message, version: int) -> bytes:
    """Return an int16 of the version and the body: the value of a coordinator's record, a
    transaction marker, a producer snapshot.

    Raises:
        ProtocolError: the version does not exist, or cannot carry a value.
    """
    return _joined(message, version, _INT16.pack(version))


def decode_versioned(cls: type[M], buffer: Buffer) -> M:
    """Return what ``encode_versioned`` wrote. Bytes left over are ignored, as newer writers may add
    some.

    Raises:
        ProtocolError: a version that does not exist here, or bytes that are not such a message.
    """
    message, _ = decode(cls, _int16(cls.SCHEMA.name, buffer), buffer, 2)
    return message


def encode_key(key: Message) -> bytes:
    """Return the key of a coordinator's record: its record type and the body.

    Raises:
        ProtocolError: a value does not fit.
    """
    record_type = key.SCHEMA.key
    assert record_type is not None
    return _joined(key, highest_version(type(key)), _INT16.pack(record_type))


def decode_key(classes: Mapping[int, type[M]], buffer: Buffer) -> M:
    """Return the key of a coordinator's record; ``classes`` are the known ones by record type, such
    as ``GROUP_KEY_CLASSES``.

    Raises:
        UnknownRecordTypeError: none of ``classes``.
        ProtocolError: bytes that are not such a key.
    """
    record_type = _int16("record key", buffer)
    cls = classes.get(record_type)
    if cls is None:
        raise UnknownRecordTypeError("record type", record_type)
    key, _ = decode(cls, highest_version(cls), buffer, 2)
    return key


def _int16(where: str, buffer: Buffer) -> int:
    if len(buffer) < 2:
        raise ends_early(where, 0, len(buffer))
    value: int = _INT16.unpack_from(buffer)[0]
    return value


def _joined(message: Message, version: int, prefix: bytes) -> bytes:
    """Return prefix and body in one piece; stored messages hold no ``records``."""
    (chunk,) = encode_chunks(message, version, prefix)
    assert isinstance(chunk, bytearray)
    return bytes(chunk)
