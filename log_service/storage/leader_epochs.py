"""The start offset of each leader epoch, by which a follower truncates (KIP-101, KIP-279).

This module decides where an epoch ends and which entries a truncation removes. It does not know
batches and elections. The log writes the file ``leader-epoch-checkpoint`` before the recovery point
passes a new entry, and when it closes. After a crash, recovery restores missing entries from the
batches.

Invariant: epochs and start offsets both increase strictly from entry to entry.
"""

from bisect import bisect_left, bisect_right
from pathlib import Path

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.storage.checkpoints import format_lines, parse_lines

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    """The leader epochs of one log, oldest first. ``latest`` is -1 without entries."""

    __slots__ = ("_epochs", "_start_offsets", "files", "is_dirty", "latest", "path")

    def __init__(self, files: Files, path: Path) -> None:
        self.files = files
        self.path = path
        self.is_dirty = False
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        self.latest = UNDEFINED_EPOCH

    @classmethod
    def load(cls, files: Files, path: Path) -> "LeaderEpochs":
        """Return the epochs in the file. A missing file has none.

        Raises:
            StorageError: the file is damaged.
        """
        epochs = cls(files, path)
        try:
            entries = [
                (int(epoch), int(offset))
                for epoch, offset in parse_lines(path, files.read_bytes(path))
            ]
        except FileNotFoundError:
            return epochs
        except ValueError as error:
            text = f"{path} is damaged: an entry is not `epoch start_offset`"
            raise StorageError(text) from error
        for epoch, start_offset in entries:
            epochs.assign(epoch, start_offset)
        epochs.is_dirty = False
        return epochs

    def __repr__(self) -> str:
        return f"<LeaderEpochs {self.entries}>"

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of each entry, oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin ``epoch`` at ``start_offset``, and return whether something changed.

        An epoch that is not above the latest changes nothing. Entries that began at or after
        ``start_offset`` had no records and are removed.
        """
        if epoch <= self.latest or epoch < 0 or start_offset < 0:
            return False
        keep = bisect_left(self._start_offsets, start_offset)
        del self._epochs[keep:], self._start_offsets[keep:]
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.latest = epoch
        self.is_dirty = True
        return True

    def lead(self, epoch: int, start_offset: int) -> bool:
        """Begin ``epoch`` at ``start_offset``, because this node now leads in this epoch.

        Return whether something changed. As in Apache Kafka, entries of this and later epochs are
        removed, because they come from another cluster whose files were moved here.
        """
        keep = bisect_left(self._epochs, epoch)
        if epoch >= 0 and keep < len(self._epochs):
            del self._epochs[keep:], self._start_offsets[keep:]
            self.latest = self._epochs[-1] if keep else UNDEFINED_EPOCH
        return self.assign(epoch, start_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch at or below ``epoch``, and its end offset.

        These are the values of OffsetForLeaderEpoch. The result is (-1, -1) if the epoch is
        unknown.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        index = bisect_right(self._epochs, epoch)
        if index == len(self._epochs):
            # No epoch is known, but a peer may still ask for one below all.
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return (self._epochs[index - 1] if index else epoch), self._start_offsets[index]

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch of ``offset``, or -1 if it is unknown."""
        index = bisect_right(self._start_offsets, offset)
        return self._epochs[index - 1] if index else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that begin at or after ``end_offset``."""
        keep = bisect_left(self._start_offsets, end_offset)
        if keep < len(self._epochs):
            del self._epochs[keep:], self._start_offsets[keep:]
            self.latest = self._epochs[-1] if keep else UNDEFINED_EPOCH
            self.is_dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end at or before ``start_offset``.

        The epoch that holds ``start_offset`` now begins there.
        """
        index = bisect_right(self._start_offsets, start_offset) - 1
        if index >= 0 and self._start_offsets[index] < start_offset:
            self._start_offsets[index] = start_offset
            self.is_dirty = True
        if index > 0:
            del self._epochs[:index], self._start_offsets[:index]
            self.is_dirty = True

    def clear(self) -> None:
        """Remove all entries."""
        if self._epochs:
            self._epochs, self._start_offsets = [], []
            self.latest = UNDEFINED_EPOCH
            self.is_dirty = True

    def clear_durably(self) -> None:
        """Remove all entries, also from the file. Blocks."""
        self.clear()
        self.maybe_write()

    def encode(self) -> bytes:
        """Return the content of the file."""
        return format_lines(f"{epoch} {offset}" for epoch, offset in self.entries)

    def take_changes(self) -> bytes | None:
        """Return the new content of the file and mark it as written, or None without changes."""
        if not self.is_dirty:
            return None
        self.is_dirty = False
        return self.encode()

    def note_unwritten(self) -> None:
        """Mark the content as unwritten, so that ``take_changes`` returns it again."""
        self.is_dirty = True

    def maybe_write(self, *, is_synced: bool = True) -> bool:
        """Write the file if it is not current, and return whether it was written. Blocks.

        With ``is_synced``, the file is durable on return. Otherwise the caller syncs later.
        """
        content = self.take_changes()
        if content is None:
            return False
        self.files.write_atomically(self.path, content, is_synced=is_synced)
        return True
