"""A bounded cache that evicts the least recently used entries, and entries that are too old.

Invariant: it never holds more entries than its capacity. Any thread may use it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps ``capacity`` entries, each for ``ttl_s`` seconds. ``now`` is a clock in seconds."""

    def __init__(
        self, capacity: int, now: Callable[[], float], ttl_s: float = float("inf")
    ) -> None:
        self._capacity, self._now, self._ttl_s = capacity, now, ttl_s
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return the entry of a key, or None if there is none or it is too old."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            if self._now() - found[0] >= self._ttl_s:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return found[1]

    def put(self, key: K, value: V) -> None:
        """Store an entry, whose age begins now."""
        with self._lock:
            self._entries[key] = (self._now(), value)
            self._entries.move_to_end(key)
            if len(self._entries) > self._capacity:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def discard(self, is_old: Callable[[K], bool]) -> None:
        """Remove the entries for whose keys ``is_old`` returns true."""
        with self._lock:
            for key in [each for each in self._entries if is_old(each)]:
                del self._entries[key]
