"""Memory for frames that are larger than a connection's buffer.

Decides where it comes from. Up to ``REUSED_BYTES`` it is memory that an earlier frame was received into, where there is some: new memory is
zeroed first, and its pages come one by one. Above that it is the system's, which gives pages only as bytes arrive, and gets them back.
How much may be taken at once is the budget's to say.

Invariant: what is kept is at most ``KEPT_COUNT`` pieces, each as large as a frame that was received.
"""

from mmap import mmap

REUSED_BYTES = 2 << 20
KEPT_COUNT = 4


class FrameMemory:
    """The pieces of memory of one node that no frame uses."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[bytearray] = []  # the smallest first

    def __repr__(self) -> str:
        return f"<FrameMemory kept={[len(memory) for memory in self._kept]}>"

    def take(self, size_bytes: int) -> bytearray | mmap:
        """Return a piece of at least that size; what is in it means nothing."""
        if size_bytes > REUSED_BYTES:
            return mmap(-1, size_bytes)
        for index, memory in enumerate(self._kept):
            if len(memory) >= size_bytes:
                return self._kept.pop(index)
        return bytearray(size_bytes)

    def give_back(self, memory: bytearray | mmap) -> None:
        """Take back a piece that nobody looks at any more; the largest ones are kept."""
        if isinstance(memory, mmap):
            return
        self._kept.append(memory)
        self._kept.sort(key=len)
        del self._kept[:-KEPT_COUNT]
