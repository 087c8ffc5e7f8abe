"""Memory for frames that are larger than a connection's buffer.

Decides where it comes from: from an earlier frame where there is some that is large enough, because new memory is zeroed first, or comes
from the system page by page, which takes as long again as receiving and writing what it holds. How much may be taken at once is the
budget's to say.

Invariant: what is kept for later frames takes at most ``KEPT_BYTES``.
"""

from mmap import mmap

SYSTEM_BYTES = 1 << 20
"""A new piece above this comes from the system, which gives pages only as bytes arrive."""

KEPT_BYTES = 8 << 20

Memory = bytearray | mmap


class FrameMemory:
    """The pieces of memory of one node that no frame uses."""

    __slots__ = ("_kept", "kept_bytes")

    def __init__(self) -> None:
        self._kept: list[Memory] = []  # the smallest first
        self.kept_bytes = 0

    def __repr__(self) -> str:
        return f"<FrameMemory kept={[len(memory) for memory in self._kept]}>"

    def take(self, size_bytes: int) -> Memory:
        """Return a piece of at least that size; what is in it means nothing."""
        for index, memory in enumerate(self._kept):
            if len(memory) >= size_bytes:
                self.kept_bytes -= len(memory)
                return self._kept.pop(index)
        return bytearray(size_bytes) if size_bytes <= SYSTEM_BYTES else mmap(-1, size_bytes)

    def give_back(self, memory: Memory) -> None:
        """Take back a piece that no frame uses any more; where there is too much, the smallest go."""
        if len(memory) > KEPT_BYTES:
            return
        self._kept.append(memory)
        self._kept.sort(key=len)
        self.kept_bytes += len(memory)
        while self.kept_bytes > KEPT_BYTES:
            self.kept_bytes -= len(self._kept.pop(0))
