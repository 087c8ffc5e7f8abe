"""Memory for frames that are larger than a connection's buffer.

``FrameMemory`` reuses the memory (a piece) of an earlier frame if it is large enough. New memory is
slower, because it is zeroed first or mapped page by page, which takes as long as receiving and
writing the frame. The budget decides how much may be taken at once.

Invariant: the pieces kept for later frames take at most ``KEPT_BYTES``.
"""

from mmap import mmap

SYSTEM_BYTES = 1 << 20
"""Larger new pieces are mapped, because the system then gives pages only as bytes arrive."""

KEPT_BYTES = 8 << 20

Memory = bytearray | mmap


class FrameMemory:
    """The unused pieces of frame memory of one node."""

    __slots__ = ("_kept", "kept_bytes")

    def __init__(self) -> None:
        self._kept: list[Memory] = []  # smallest first
        self.kept_bytes = 0

    def __repr__(self) -> str:
        return f"<FrameMemory kept={[len(memory) for memory in self._kept]}>"

    def take(self, size_bytes: int) -> Memory:
        """Return a piece of at least this size. Its content is arbitrary."""
        for index, memory in enumerate(self._kept):
            if len(memory) >= size_bytes:
                self.kept_bytes -= len(memory)
                return self._kept.pop(index)
        return bytearray(size_bytes) if size_bytes <= SYSTEM_BYTES else mmap(-1, size_bytes)

    def give_back(self, memory: Memory) -> None:
        """Take back an unused piece. If too much is kept, the smallest pieces are dropped."""
        if len(memory) > KEPT_BYTES:
            return
        self._kept.append(memory)
        self._kept.sort(key=len)
        self.kept_bytes += len(memory)
        while self.kept_bytes > KEPT_BYTES:
            self.kept_bytes -= len(self._kept.pop(0))
