"""Compares a replica's metadata log with the leader's log, for the quorum's rules.

This file decides whether a fetch position is part of the leader's log, diverges from it, or lies
before its start. It also decides where a follower truncates a log that diverges. It reads only
offsets and epochs.

Invariants: A log is truncated by leader epoch, never by high watermark (KIP-101). A record is
identified by its offset and epoch together.
"""

from typing import NamedTuple, Protocol


class SnapshotId(NamedTuple):
    """The extent of a snapshot.

    It covers every offset below ``end_offset``. ``epoch`` is the epoch of the last one. A later
    snapshot has a larger id.
    """

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The name of the snapshot's file."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


BOOTSTRAP_SNAPSHOT = SnapshotId(0, 0)
"""The snapshot of a fresh directory. It is not replicated, and the first leader logs its voters."""


class EpochEnd(NamedTuple):
    """The end of an epoch in a log. ``end_offset`` is exclusive."""

    epoch: int
    end_offset: int


class LogView(Protocol):
    """A metadata log as the quorum's rules see it."""

    @property
    def start_offset(self) -> int:
        """The first offset in the log."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record, synced or not."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, else of the newest snapshot, else 0."""

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        """The oldest snapshot, or None if there is none."""

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot, or None if there is none."""

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """Return the largest epoch at or below ``epoch`` and its end.

        If all epochs are larger, return ``epoch`` with the start of the first one. Return None if
        ``epoch`` is above all epochs, or if the log has none.
        """

    def snapshot_size_bytes(self, snapshot_id: SnapshotId) -> int | None:
        """Return the size of a snapshot, or None if it does not exist."""


class FetchCheck(NamedTuple):
    """The relation of a fetch position to the leader's log.

    If both fields are None, the leader's log contains the position. ``diverging`` is the epoch and
    end offset from which the replica's log is known to diverge. ``snapshot_id`` is the snapshot to
    fetch instead of records.
    """

    diverging: EpochEnd | None = None
    snapshot_id: SnapshotId | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the replica's log is a prefix of the leader's."""
        return self.diverging is None and self.snapshot_id is None


VALID = FetchCheck()


def check_fetch(log: LogView, fetch_offset: int, last_epoch: int) -> FetchCheck:
    """Compare the leader's log with one that ends at ``fetch_offset`` after ``last_epoch``."""
    latest, earliest = log.latest_snapshot, log.earliest_snapshot
    if fetch_offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        return FetchCheck(snapshot_id=latest)
    if fetch_offset == 0 and log.start_offset == 0:
        return VALID
    if (
        latest is not None
        and earliest is not None
        and _is_before(earliest, log.start_offset, fetch_offset, last_epoch)
    ):
        return FetchCheck(snapshot_id=latest)
    own = end_of_epoch(log, last_epoch)
    return (
        VALID
        if own.epoch == last_epoch and own.end_offset >= fetch_offset
        else FetchCheck(diverging=own)
    )


def _is_before(earliest: SnapshotId, start_offset: int, fetch_offset: int, last_epoch: int) -> bool:
    is_another_start = fetch_offset == start_offset and last_epoch != earliest.epoch
    return fetch_offset < start_offset or is_another_start or last_epoch < earliest.epoch


def end_of_epoch(log: LogView, epoch: int) -> EpochEnd:
    """Return the end of ``epoch``, or of the largest epoch below it.

    An epoch above all others ends at the end of the log.
    """
    found, earliest = log.end_of_epoch(epoch), log.earliest_snapshot
    if found is None:
        return EpochEnd(log.last_epoch, log.end_offset)
    if earliest is not None and (found.end_offset, found.epoch) == (earliest.end_offset, epoch):
        return EpochEnd(earliest.epoch, earliest.end_offset)
    return found


def end_below(log: LogView, offset: int) -> EpochEnd:
    """Return ``offset`` with the epoch of the last record below it. ``offset`` is in the log."""
    epoch = log.last_epoch
    while (
        (before := log.end_of_epoch(epoch - 1)) is not None
        and before.epoch < epoch
        and before.end_offset >= offset
    ):
        epoch = before.epoch
    return EpochEnd(epoch, offset)


def truncation_offset(log: LogView, diverging: EpochEnd) -> int:
    """Return the offset at which a follower truncates its log.

    ``diverging`` is the last epoch that both logs may share, according to the leader.
    """
    if diverging.epoch == 0:
        return min(diverging.end_offset, log.end_offset)
    own = end_of_epoch(log, diverging.epoch)
    return (
        min(own.end_offset, diverging.end_offset)
        if own.epoch == diverging.epoch
        else own.end_offset
    )
