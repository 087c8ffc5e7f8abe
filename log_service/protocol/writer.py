"""Rare cases of compiled encoders: long varints, and errors for values that a version lacks."""

from log_service.common.errors import ProtocolError


def uvarint(value: int) -> bytes:
    """Encode a number that is not negative as an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def cannot_carry(where: str, value: object) -> ProtocolError:
    """Return the error for a value that may not be dropped and has no field in this version."""
    return ProtocolError(f"{where}: this version cannot carry {value!r:.80}")


def does_not_fit(where: str, reason: object) -> ProtocolError:
    """Return the error for a number or text outside the range of its wire type."""
    return ProtocolError(f"{where}: a value does not fit its wire type ({reason})")


def too_long(where: str, size: int) -> ProtocolError:
    """Return the error for a string longer than the protocol allows."""
    return ProtocolError(f"{where}: a string of {size} bytes is longer than the protocol allows")
