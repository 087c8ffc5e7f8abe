"""Cuts a stream of bytes into the JSON objects that it contains one after the other.

It looks only for brackets and strings, so it takes time in proportion to the bytes. Only whitespace
is allowed between two objects.

Invariants: at most ``max_bytes`` of an incomplete object are kept. An invalid object does not
affect the objects before it, however the stream was cut into pieces.
"""

import re
from typing import Final

from log_service.http.rest_proxy.errors import RestError

OUTSIDE: Final = re.compile(
    rb"""[^"{}]*+ (?: "[^"\\]*+ (?: \\.[^"\\]*+ )*+" [^"{}]*+ )*+""", re.VERBOSE | re.DOTALL
)
"""Whole strings and all else up to a curly bracket, or up to a string without an end so far."""
INSIDE: Final = re.compile(rb'["\\]')
BLANKS: Final = re.compile(rb"[ \t\r\n]*+")
QUOTE, OPENING = b'"{'


class JsonObjects:
    """Collects the pieces of one stream, and returns complete JSON objects."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._looked = 0
        self._depth = 0
        self._is_in_text = False
        self.fault: RestError | None = None
        """400, there is something else between two objects. 413, an object is too long."""

    def __repr__(self) -> str:
        return f"<JsonObjects waiting={len(self._buffer)}>"

    @property
    def is_between(self) -> bool:
        """Whether the stream so far ends after a complete object."""
        return self._depth == 0 and not self._buffer and self.fault is None

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that are kept of an incomplete object."""
        return len(self._buffer)

    def add(self, piece: bytes) -> list[bytes]:
        """Add a piece of the stream, and return the objects that are complete now.

        Sets ``fault`` if the text after these objects is not valid. After that no object is
        returned any more.
        """
        if self.fault is not None:
            return []
        self._buffer += piece
        return self._complete_objects()

    def _complete_objects(self) -> list[bytes]:
        found: list[bytes] = []
        while (end := self._end_of_object()) is not None:
            found.append(bytes(self._buffer[:end]))
            del self._buffer[:end]
            self._looked = 0
        if self.fault is None and len(self._buffer) > self._max_bytes:
            self.fault = RestError(413, f"A record has at most {self._max_bytes} bytes.")
        if self.fault is not None:
            self._buffer.clear()
        return found

    def _end_of_object(self) -> int | None:
        if self._depth == 0 and not self._is_object_next():
            return None
        buffer = self._buffer
        while not self._is_in_text or self._has_left_text():
            self._looked = _end_of(OUTSIDE, buffer, self._looked)
            if self._looked == len(buffer):
                return None
            sign = buffer[self._looked]
            self._looked += 1
            if sign == QUOTE:
                self._is_in_text = True
            else:
                self._depth += 1 if sign == OPENING else -1
                if self._depth == 0:
                    return self._looked
        return None

    def _has_left_text(self) -> bool:
        """Look for the end of a string that has begun. Return whether the end was found."""
        while (hit := INSIDE.search(self._buffer, self._looked)) is not None:
            if hit[0] == b'"':
                self._looked, self._is_in_text = hit.end(), False
                return True
            if hit.end() == len(self._buffer):  # the second half of an escape is still to come
                self._looked = hit.start()
                return False
            self._looked = hit.end() + 1
        self._looked = len(self._buffer)
        return False

    def _is_object_next(self) -> bool:
        """Drop whitespace, and return whether an object begins after it.

        Sets ``fault`` if something else begins there.
        """
        del self._buffer[: _end_of(BLANKS, self._buffer, 0)]
        self._looked = 0
        if self._buffer and not self._buffer.startswith(b"{"):
            self.fault = RestError(400, "Each record has to be a JSON object.")
        return bool(self._buffer) and self.fault is None


def _end_of(pattern: re.Pattern[bytes], buffer: bytearray, start: int) -> int:
    """Return the end of the match of ``pattern`` at ``start``.

    The pattern must be able to match the empty text, so that it matches at any position.
    """
    hit = pattern.match(buffer, start)
    assert hit is not None
    return hit.end()
