"""Lines of recent records, which several streams of one login send.

Readers that follow a topic ask for the same records within moments. The first one decodes a record,
and the others take its line. A line belongs to a login, because the schema registry decides by
login which schemas may be read.

Invariant: at most ``max_bytes`` of lines are kept.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

MAX_BYTES: Final = 8 << 20
ENTRY_BYTES: Final = 300
"""About what an entry takes beside its line."""


class LineCache:
    """The lines of one proxy. Keys tell login, topic, place and form of a record apart."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lines = OrderedDict[Hashable, bytes]()
        self._size_bytes = 0

    def __repr__(self) -> str:
        return f"<LineCache lines={len(self._lines)} bytes={self._size_bytes}>"

    def get(self, key: Hashable) -> bytes | None:
        """Return a line, None if it is not kept."""
        return self._lines.get(key)

    def put(self, key: Hashable, line: bytes) -> None:
        """Keep a line. Those that were put first go first."""
        if key in self._lines:
            return
        self._lines[key] = line
        self._size_bytes += len(line) + ENTRY_BYTES
        while self._size_bytes > self._max_bytes:
            _, dropped = self._lines.popitem(last=False)
            self._size_bytes -= len(dropped) + ENTRY_BYTES
