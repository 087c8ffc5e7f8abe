"""Remembers which nodes do not respond in time, so that a client asks them after the others.

A leader that hangs would otherwise take up each acquire for its whole wait, although other leaders
have records.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

LATE_S: Final = 1.0
"""Lateness in seconds from which on a node counts as silent. It begins after the asked wait."""
SILENT_S: Final = 10.0
"""Time in seconds for which a silent node comes last."""


class SilentNodes:
    """The nodes that responded late, or not at all, in the last ``SILENT_S`` seconds."""

    def __init__(self) -> None:
        self._until_s: dict[int, float] = {}

    @contextmanager
    def note(self, node_id: int, wait_ms: int) -> Iterator[None]:
        """Time a request to a node that may wait ``wait_ms``.

        A late end marks the node as silent. A response in time removes the mark. A request that
        fails or is cancelled earlier changes nothing.
        """
        late_s = trio.current_time() + wait_ms / 1_000 + LATE_S
        has_responded = False
        try:
            yield
            has_responded = True
        finally:
            now_s = trio.current_time()
            if now_s >= late_s:
                self._until_s[node_id] = now_s + SILENT_S
            elif has_responded:
                self._until_s.pop(node_id, None)

    def come_last(self, nodes: Iterable[int]) -> list[int]:
        """Return nodes in the same order, but silent nodes after the others."""
        now_s = trio.current_time()
        return sorted(nodes, key=lambda node: self._until_s.get(node, 0.0) > now_s)
