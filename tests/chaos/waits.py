"""How long clients waited for acknowledgements while something happened to a cluster. Nothing is
judged: a busy machine takes longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The waits in seconds.

    They are the longest without an acknowledgement, and the longest of one of ``count`` records.
    """

    silence: float
    record: float
    count: int

    def __str__(self) -> str:
        return f"longest without any acknowledgement {self.silence:.2f} s, longest wait of one of {self.count} records {self.record:.2f} s"


def waits_between(told_at: Sequence[tuple[float, float]], begin: float, end: float) -> Waits:
    """Return the waits between two moments.

    ``told_at`` has the moment that each record was sent and acknowledged, as it was told. The time
    up to the first acknowledgement counts, and that behind the last one. A record counts where it
    was sent and acknowledged in between: one that was sent before may have waited for something
    else.
    """
    found = [(sent, acknowledged) for sent, acknowledged in told_at if begin <= acknowledged <= end]
    moments = [begin, *(acknowledged for _, acknowledged in found), end]
    waited = [acknowledged - sent for sent, acknowledged in found if sent >= begin]
    return Waits(
        silence=max(later - earlier for earlier, later in pairwise(moments)),
        record=max(waited, default=0.0),
        count=len(waited),
    )
