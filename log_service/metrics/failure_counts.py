"""Counts failed logins and handshakes by address, in bounded memory.

Invariant: every failure is counted, and clients cannot make more than ``MAX_COUNTED_ADDRESSES``
series, and one more for each mechanism.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final

MAX_COUNTED_ADDRESSES: Final = 500
"""Pairs of mechanism and address that a listener counts apart."""
OTHER_ADDRESSES: Final = "other"
TLS: Final = "TLS"
"""The mechanism of a handshake."""


class FailureCounts:
    """Failed logins or handshakes by mechanism and address.

    At most ``MAX_COUNTED_ADDRESSES`` pairs of mechanism and address are counted singly. If there is
    one more, the count of the pair whose last failure is longest ago is added to the count of the
    address ``other`` of its mechanism.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._others: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<FailureCounts addresses={len(self._counts)}>"

    def add(self, mechanism: str, host: str) -> None:
        """Count a failure."""
        key = mechanism, host
        self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > MAX_COUNTED_ADDRESSES:
            (of, _), count = self._counts.popitem(last=False)
            self._others[of] += count

    def items(self) -> Iterator[tuple[str, str, int]]:
        """Yield mechanism, address and count. Failures counted together have address ``other``."""
        for (mechanism, host), count in self._counts.items():
            yield mechanism, host, count
        for mechanism, count in self._others.items():
            yield mechanism, OTHER_ADDRESSES, count
