"""A ring buffer of samples: the values of many series at the same moments, in bounded memory.

Invariants: at most ``slot_count`` moments are kept, and at most ``max_series_count`` series. A
series that has a value at none of the last ``slot_count`` moments is removed.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from operator import add

SLOT_COUNT = 240
MAX_SERIES_COUNT = 1_000
"""With ``SLOT_COUNT`` values of 8 bytes each: 2 MB."""

SeriesKey = tuple[str, ...]
Point = tuple[int, float | None]
"""A moment in milliseconds since 1970, and a value, None if the sample had none."""


class History:
    """The samples of one cluster."""

    def __init__(
        self, *, slot_count: int = SLOT_COUNT, max_series_count: int = MAX_SERIES_COUNT
    ) -> None:
        self._slot_count = slot_count
        self._max_series_count = max_series_count
        self._times_ms: list[int] = []
        self._series: dict[SeriesKey, array[float]] = {}
        self._next = 0
        self.left_out_count = 0
        """Series of the last sample that found no room."""

    def __repr__(self) -> str:
        return f"<History samples={len(self._times_ms)} series={len(self._series)}>"

    def __len__(self) -> int:
        return len(self._times_ms)

    def add(self, at_ms: int, values: Mapping[SeriesKey, float]) -> None:
        """Keep a sample, and forget the oldest one if ``slot_count`` samples are kept already."""
        slot = self._next
        self._next = (slot + 1) % self._slot_count
        if slot < len(self._times_ms):
            self._times_ms[slot] = at_ms
        else:
            self._times_ms.append(at_ms)
        for key, series in self._series.items():
            series[slot] = values.get(key, nan)
        if slot == self._slot_count - 1:
            silent = [key for key, series in self._series.items() if all(map(isnan, series))]
            for key in silent:
                del self._series[key]
        self.left_out_count = 0
        for key, value in values.items():
            if key in self._series:
                continue
            if len(self._series) >= self._max_series_count:
                self.left_out_count += 1
                continue
            made = self._series[key] = array("d", [nan]) * self._slot_count
            made[slot] = value

    def points(self, key: SeriesKey, since_ms: int) -> list[Point]:
        """Return the values of a series since ``since_ms``, oldest first.

        An unknown series has none.
        """
        return self.total([key], since_ms)

    def total(self, keys: Iterable[SeriesKey], since_ms: int) -> list[Point]:
        """Return the sums of several series at each moment since ``since_ms``, oldest first.

        The sum is None at a moment at which a series has no value. Unknown series are ignored.
        """
        known = [self._series[key] for key in keys if key in self._series]
        if not known:
            return []
        sums: Sequence[float] = known[0]
        for series in known[1:]:
            sums = list(map(add, sums, series))
        count = len(self._times_ms)
        first = self._next if count == self._slot_count else 0
        slots = [(first + index) % count for index in range(count)]
        return [
            (self._times_ms[slot], None if isnan(sums[slot]) else sums[slot])
            for slot in slots
            if self._times_ms[slot] >= since_ms
        ]
