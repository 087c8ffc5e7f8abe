"""Reads the part of a log that a loss of power would leave.

It has the batches in the durable bytes of its files, and the snapshots made of it.

Decides nothing, and changes nothing: it looks at a simulated disk from outside.
"""

import re
from pathlib import Path

from log_service.records.batch import CorruptBatch, iterate_headers
from log_service.storage.file_names import LOG_SUFFIX, parse_file_name
from tests.sim.disk import Directory, Disk, Inode

_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class DurableLog:
    """The log in a directory of a disk. Each look reads on from where the last one ended."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._files: dict[str, tuple[Inode, int, bytes]] = {}
        self._epochs: dict[str, dict[int, int]] = {}
        self._snapshot_end = 0

    def holds(self, base_offset: int, epoch: int) -> bool:
        """Whether a batch is there, or a snapshot that was made of it."""
        self._look()
        return base_offset < self._snapshot_end or any(
            epochs.get(base_offset) == epoch for epochs in self._epochs.values()
        )

    @property
    def is_there(self) -> bool:
        """Whether the disk has the directory: one that was replaced has not."""
        return isinstance(self._disk.find(self._directory), Directory)

    def _look(self) -> None:
        node = self._disk.find(self._directory)
        if not isinstance(node, Directory):
            self._files.clear()
            self._epochs.clear()
            self._snapshot_end = 0
            return
        ends = [
            int(match[1])
            for name in node.children
            if (match := _SNAPSHOT.fullmatch(name)) is not None
        ]
        self._snapshot_end = max(ends, default=0)
        names = [name for name in node.children if parse_file_name(name, LOG_SUFFIX) is not None]
        for name in [name for name in self._files if name not in names]:
            del self._files[name], self._epochs[name]
        for name in names:
            inode = node.children[name]
            assert isinstance(inode, Inode)
            self._read_on(name, inode)

    def _read_on(self, name: str, inode: Inode) -> None:
        known, position, tail = self._files.get(name, (None, 0, b""))
        if known is not inode or inode.durable[position - len(tail) : position] != tail:
            position, tail = 0, b""
            self._epochs[name] = {}
        if len(inode.durable) > position:
            fresh = bytes(inode.durable[position:])
            try:
                for at, header in iterate_headers(fresh, is_torn_tail_ok=True):
                    self._epochs[name][header.base_offset] = header.partition_leader_epoch
                    tail = fresh[at : at + header.size_bytes]
                    end = position + at + header.size_bytes
                position = end
            except (CorruptBatch, UnboundLocalError):
                pass  # a hole, or the beginning of a batch: it is read again
        self._files[name] = (inode, position, tail)
