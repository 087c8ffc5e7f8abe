"""A cache of results, bounded in number and weight. It drops the least recently used result first.

Several threads may use it at once.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """An LRU cache of results by key. With ``max_weight`` None only their number is bounded."""

    def __init__(self, max_count: int, max_weight: int | None = None) -> None:
        self._max_count = max_count
        self._max_weight = max_weight
        self._found: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.weight = 0
        """The weight of all results."""

    def __repr__(self) -> str:
        return f"<Remembered {len(self._found)}>"

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> V | None:
        """Return the result of a key, or None if it is not cached."""
        with self._lock:
            if key not in self._found:
                return None
            self._found.move_to_end(key)
            return self._found[key][0]

    def put(self, key: K, result: V, weight: int = 0) -> None:
        """Cache a result, and drop others if the bounds are exceeded."""
        with self._lock:
            _, older = self._found.pop(key, (None, 0))
            self._found[key] = result, weight
            self.weight += weight - older
            while self._is_over():
                _, (_, gone) = self._found.popitem(last=False)
                self.weight -= gone

    def _is_over(self) -> bool:
        is_heavy = self._max_weight is not None and self.weight > self._max_weight
        return len(self._found) > self._max_count or is_heavy
