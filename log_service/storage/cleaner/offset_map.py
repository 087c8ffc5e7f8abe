"""The latest offset of each key, within a memory limit.

Keys and their entries in the hash table count against the limit, so that a log with more keys takes
more passes instead of more memory. The map does not know batches.

Invariants:

- An offset is only ever replaced by a later one.
- The map always accepts at least one key, so that every pass makes progress.
- Keys are compared byte by byte. For a long key the map holds only a digest, and no digest equals a
  short key.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice

ENTRY_BYTES = 160
"""The cost of a key in addition to its bytes: two objects, and its place in a growing table."""

_LONGEST_HELD_BYTES = 64
_DIGEST_BYTES = 64
_FORGOTTEN_AT_ONCE = 4_096


class OffsetMap:
    """Keys and their latest offsets, in at most ``limit_bytes``.

    The map covers every offset up to ``latest_offset``.
    """

    __slots__ = ("_key_bytes", "_offsets", "latest_offset", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}
        self._key_bytes = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        return (
            f"<OffsetMap keys={len(self)} bytes={self.used_bytes}/{self.limit_bytes}"
            f" latest_offset={self.latest_offset}>"
        )

    @property
    def used_bytes(self) -> int:
        """The estimated memory of the keys, in bytes."""
        return len(self._offsets) * ENTRY_BYTES + self._key_bytes

    def add(self, keys: Sequence[bytes], offsets: Sequence[int]) -> bool:
        """Add keys with increasing offsets, and return whether all were added.

        If not, ``latest_offset`` is the offset of the last key that was added.
        """
        held = _held(keys)
        size_bytes = sum(map(len, held))
        if self.used_bytes + len(held) * ENTRY_BYTES + size_bytes > self.limit_bytes:
            return self._add_while_room(held, offsets)
        before = len(self._offsets)
        self._offsets.update(zip(held, offsets, strict=True))
        if held:
            self._key_bytes += size_bytes * (len(self._offsets) - before) // len(held)
            self.latest_offset = offsets[-1]
        return True

    def _add_while_room(self, held: Sequence[bytes], offsets: Sequence[int]) -> bool:
        for key, offset in zip(held, offsets, strict=True):
            if key not in self._offsets:
                if self._offsets and self.used_bytes + ENTRY_BYTES + len(key) > self.limit_bytes:
                    return False
                self._key_bytes += len(key)
            self._offsets[key] = offset
            self.latest_offset = offset
        return True

    def advance(self, offset: int) -> None:
        """Mark all offsets up to ``offset`` as covered."""
        self.latest_offset = max(self.latest_offset, offset)

    def superseded(self, keys: Sequence[bytes], offsets: Sequence[int]) -> list[int]:
        """Return the indexes of the records for which the map has a later offset of the same key.

        ``offsets`` may be longer than ``keys``.
        """
        # ``get`` falls back to the record's own offset if the map does not have the key.
        latest = map(self._offsets.get, _held(keys), offsets)
        return [
            index
            for index, (known, offset) in enumerate(zip(latest, offsets, strict=False))
            if known > offset
        ]

    def forget(self) -> None:
        """Free the memory in steps. Other threads may run between two steps."""
        offsets = self._offsets
        while offsets:
            for key in list(islice(offsets, _FORGOTTEN_AT_ONCE)):
                del offsets[key]
        self._offsets = {}
        self._key_bytes = 0
        self.latest_offset = -1


def _held(keys: Sequence[bytes]) -> Sequence[bytes]:
    """Return each key as the map stores it: a short key itself, and a long key as its digest."""
    if not keys or max(map(len, keys)) <= _LONGEST_HELD_BYTES:
        return keys
    return [
        (
            key
            if len(key) <= _LONGEST_HELD_BYTES
            else b"\0" + blake2b(key, digest_size=_DIGEST_BYTES).digest()
        )
        for key in keys
    ]
