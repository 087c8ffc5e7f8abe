"""Cuts a stream of bytes into JSON objects that stand one after the other.

Only brackets and texts are looked at, so the cut takes time in proportion to the bytes. Blanks may
stand between two objects, and nothing else.

Invariant: at most ``max_bytes`` of an object that is not complete are kept.
"""

import re
from typing import Final

from log_service.http.rest_proxy.errors import RestError

OUTSIDE: Final = re.compile(rb'["{}]')
INSIDE: Final = re.compile(rb'["\\]')
BLANKS: Final = b" \t\r\n"


class JsonObjects:
    """The objects of one stream."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._looked = 0
        self._depth = 0
        self._is_in_text = False

    def __repr__(self) -> str:
        return f"<JsonObjects waiting={len(self._buffer)}>"

    @property
    def is_between(self) -> bool:
        """Whether no object has begun that is not complete."""
        return self._depth == 0 and not self._buffer

    @property
    def waiting_bytes(self) -> int:
        """The bytes that are kept of an object that is not complete."""
        return len(self._buffer)

    def add(self, piece: bytes) -> list[bytes]:
        """Take a piece of the stream, and return the objects that are complete now.

        Raises:
            RestError: 400, something else stands between two objects. 413, an object is too long.
        """
        self._buffer += piece
        found: list[bytes] = []
        while (end := self._end_of_object()) is not None:
            found.append(bytes(self._buffer[:end]))
            del self._buffer[:end]
            self._looked = 0
        if len(self._buffer) > self._max_bytes:
            raise RestError(413, f"A record has at most {self._max_bytes} bytes.")
        return found

    def _end_of_object(self) -> int | None:
        if self._depth == 0:
            self._drop_blanks()
        while self._looked < len(self._buffer):
            pattern = INSIDE if self._is_in_text else OUTSIDE
            hit = pattern.search(self._buffer, self._looked)
            if hit is None:
                self._looked = len(self._buffer)
                return None
            sign = hit[0]
            if sign == b"\\":
                if hit.end() == len(self._buffer):  # its second half is still to come
                    self._looked = hit.start()
                    return None
                self._looked = hit.end() + 1
                continue
            self._looked = hit.end()
            if sign == b'"':
                self._is_in_text = not self._is_in_text
            else:
                self._depth += 1 if sign == b"{" else -1
                if self._depth == 0:
                    return self._looked
        return None

    def _drop_blanks(self) -> None:
        rest = self._buffer.lstrip(BLANKS)
        if rest and not rest.startswith(b"{"):
            raise RestError(400, "Each record has to be a JSON object.")
        self._buffer = rest
        self._looked = 0
