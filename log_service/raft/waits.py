"""Callers that wait until a position of the metadata log is committed.

Decides when a wait ends and how: well, once the high watermark has reached the position; with NOT_CONTROLLER, once the epoch of the
position is over. The driver says when either happens. Invariant: every wait ends, for every epoch does.
"""

from dataclasses import dataclass

import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """A place between two records of the metadata log, as the leader of ``epoch`` sees it. ``end_offset`` is exclusive.

    The offset alone names no place: a leader of a later epoch may have another record there.
    """

    epoch: LeaderEpoch
    end_offset: int


class _Wait:
    __slots__ = ("ended", "is_committed", "position")

    def __init__(self, position: LogPosition) -> None:
        self.position = position
        self.ended = trio.Event()
        self.is_committed = False


class CommitWaits:
    """The waits of the epoch that this node leads."""

    def __init__(self) -> None:
        self._waits: list[_Wait] = []

    def __repr__(self) -> str:
        return f"<CommitWaits {[wait.position.end_offset for wait in self._waits]}>"

    async def wait_for(self, position: LogPosition) -> None:
        """Wait until ``end_by_commit`` has passed ``position``.

        Raises:
            KafkaError: NOT_CONTROLLER, the epoch ended first.
        """
        wait = _Wait(position)
        self._waits.append(wait)
        await wait.ended.wait()
        if not wait.is_committed:
            raise not_controller()

    def end_by_commit(self, high_watermark: int) -> None:
        """End the waits for what lies below ``high_watermark`` (exclusive)."""
        due = [wait for wait in self._waits if wait.position.end_offset <= high_watermark]
        self._waits = [wait for wait in self._waits if wait.position.end_offset > high_watermark]
        for wait in due:
            wait.is_committed = True
            wait.ended.set()

    def end_by_epoch(self) -> None:
        """End all waits, for the epoch is over."""
        waits, self._waits = self._waits, []
        for wait in waits:
            wait.ended.set()


def not_controller() -> KafkaError:
    """Return what a caller gets from a node that does not lead the quorum, or no longer in the epoch of the call."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum in that epoch; ask the active controller")
