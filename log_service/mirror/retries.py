"""Decides when failed attempts are repeated. The pause of each item doubles with every failure.

So an item that keeps failing is tried more and more rarely, and does not delay an item that failed
for the first time. The caller passes in the time.
"""

from collections.abc import Collection


class Retries:
    """The failing items, such as topics, by name, and the times of their next attempts.

    The pause of an item doubles from ``first_s`` up to ``last_s``.
    """

    def __init__(self, first_s: float, last_s: float) -> None:
        self._first_s = min(first_s, last_s)
        self._last_s = last_s
        self._pauses: dict[str, float] = {}
        self._due_s: dict[str, float] = {}

    def settle(self, failed: Collection[str], now_s: float) -> None:
        """Note the items that failed at ``now_s``, and forget all others.

        The others succeeded or are no longer wanted. A failed item that was tried before it was due
        keeps its pause and the time of its next attempt.
        """
        for name in self._pauses.keys() - set(failed):
            del self._pauses[name], self._due_s[name]
        for name in failed:
            if name not in self._pauses:
                self._pauses[name] = self._first_s
            elif self._due_s[name] <= now_s:
                self._pauses[name] = min(2 * self._pauses[name], self._last_s)
            else:
                continue  # it was tried along with another one
            self._due_s[name] = now_s + self._pauses[name]

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until the next attempt of any item, at most ``last_s``."""
        return min([self._last_s, *(max(due_s - now_s, 0.0) for due_s in self._due_s.values())])
