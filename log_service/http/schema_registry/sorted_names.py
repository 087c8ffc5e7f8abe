"""Keeps names in order, so that those with a prefix are found without a scan of all names.

Reading does not change the object, because several threads read at once.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

LAST_CHARACTER = "\U0010ffff"


class SortedNames:
    """A set of names in order. An addition to 100,000 names takes about 10 us."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: list[str] = []

    def __repr__(self) -> str:
        return f"<SortedNames of {len(self._names)}>"

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: str) -> bool:
        place = bisect_left(self._names, name)
        return self._names[place : place + 1] == [name]

    def add(self, name: str) -> None:
        """Add a name. A name that was added before is ignored."""
        if name not in self:
            insort(self._names, name)

    def discard(self, name: str) -> None:
        """Remove a name that may be missing."""
        if name in self:
            del self._names[bisect_left(self._names, name)]

    def clear(self) -> None:
        """Remove all names."""
        self._names.clear()

    def beginning_with(self, prefix: str) -> list[str]:
        """Return the names that begin with a prefix, in order."""
        first = bisect_left(self._names, prefix)
        last = bisect_left(self._names, prefix + LAST_CHARACTER, first)
        found = self._names[first:last]
        while last < len(self._names) and self._names[last].startswith(prefix):
            found.append(self._names[last])  # names that go on with the last character
            last += 1
        return found
