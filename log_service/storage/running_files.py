"""The file ``tidelog-running`` in each log directory, for claiming the last run after a kill.

A killed broker loses nothing if its machine continues to run. At its registration a broker tells
the controller whether it still has all of its records, by naming the broker epoch of its last run
(KIP-966). In Apache Kafka it names the epoch only after a clean stop. After any other stop a broker
leaves the in-sync and the eligible leader replicas, because a power loss removes unsynced writes.
But if only the process ends, nothing is lost, because its writes are in the kernel's page cache.

Therefore a file in each log directory names the current epoch and the page cache
(``Files.page_cache_id``: the boot id of the kernel, and the directory in its file system). If the
next start finds the same page cache, it names this epoch at its registration. Its logs are
recovered as after any crash. Only the registration differs.

This module defines the file's content (JSON), and decides when it is trusted and when it is
removed. These are the reasons for trusting the file, and the cases in which it is not trusted:

- A record counts for the high watermark only after it was written. A leader counts its records, and
  a follower fetches after them, only after the whole write has ended. A kill during a write leaves
  incomplete batches that counted nowhere, and recovery removes them. A failed write, as on a full
  disk, is undone and counted nowhere.
- With ``flush.messages=1`` records count only after they are synced. Records that are read after a
  kill are synced again before they count again.
- A sync, read or write that fails takes its directory offline. The file is removed from all
  directories before the failure is reported, and is not written again in this run. The kernel may
  also fail to finish writes after the process died, and no process learns of this. Recovery then
  finds damage that no kill leaves (``LogDirectory.may_lack_records``), or a directory that cannot
  be read or written, and the file is not trusted.
- Each directory must name the same epoch. A new disk has no file. A disk that was absent during a
  run has an older epoch.
- A different directory, such as a copy that was moved here or another volume, has another identity.
  A directory on another host, or after a restart of the kernel, also has another identity.
- Files inside the directory may be removed or exchanged between two runs. ``running_logs`` lists
  the logs and their segments. ``last_run`` compares them with the logs that a start finds, and the
  file is trusted only if nothing is missing. An older copy of a log is detected because its end
  lies below the high watermark in the checkpoint. A copy that is newer than the checkpoint is not
  detected.
- A start that does not trust the file removes it durably. A volume that is detached by force, tried
  on another host and returned has no file. If a disk is removed from the running machine and put
  back before the next start, this is not detected, provided that its remaining data ends with a
  batch.
- A start that fails before it is registered has appended nothing, so the file stays. The file also
  replaces the marker of a clean stop, which is removed at the start. Between the registration and
  the next write of the file, the controller has a newer epoch and trusts no file.
- Apache Kafka does not read the file. If Apache Kafka ran in between, the controller has the epoch
  of that run and trusts no older one.
- A machine that sleeps or moves to another host while it runs retains its page cache. A machine
  that is reset to a snapshot of its memory forgets later acknowledgements, whether its broker was
  killed or not. No broker can detect this.

The file is never synced, because it has no meaning on a machine that lost unsynced writes. If the
page cache has no identity, there is no file, and a killed broker is treated as in Apache Kafka.
This is the case on a system without ``/proc``, or on a file system whose writes may wait in a
process.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from log_service.common.env import Files
from log_service.common.types import CLUSTER_METADATA_TOPIC, TopicPartition
from log_service.storage import page_cache
from log_service.storage.checkpoint_writer import ALL_CHECKPOINTS
from log_service.storage.log_directory import LogDirectory, is_full_disk
from log_service.storage.running_logs import Extent, RunningLogs

RUNNING_FILE = "tidelog-running"
VOTES = f"{CLUSTER_METADATA_TOPIC}-0/quorum-state"
"""The quorum state, which is lost with the metadata log.

Lists of partition logs do not show that.
"""

logger = logging.getLogger(__name__)


def read_running_epoch(files: Files, directory: Path) -> int | None:
    """Return the epoch of the run that wrote everything in a directory's page cache, or None."""
    try:
        content = files.read_bytes(directory / RUNNING_FILE)
        found = json.loads(content)
        epoch, page_cache_id = int(found["brokerEpoch"]), found["pageCacheId"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return (
        epoch
        if page_cache.is_same_page_cache(page_cache_id, files.page_cache_id(directory))
        else None
    )


def write_running_epoch(files: Files, directory: Path, broker_epoch: int) -> None:
    """Write the file without a sync.

    On a full disk the old file stays. Its epoch is one that the controller ignores.

    Raises:
        OSError: the disk failed.
    """
    page_cache_id = files.page_cache_id(directory)
    if page_cache_id is None:
        return
    content = {"version": 0, "brokerEpoch": broker_epoch, "pageCacheId": page_cache_id}
    try:
        files.write_atomically(
            directory / RUNNING_FILE, json.dumps(content).encode(), is_synced=False
        )
    except OSError as error:
        if not is_full_disk(error):
            raise
        logger.warning(
            "log directory %s is full: after a kill this broker will count as one that lost"
            " records",
            directory,
        )


def remove_running_epoch(files: Files, directory: Path, *, is_durable: bool = False) -> None:
    """Remove the file, unless it is missing.

    Raises:
        OSError: the disk failed.
    """
    if files.exists(directory / RUNNING_FILE):
        files.remove(directory / RUNNING_FILE)
        if is_durable:
            files.sync_directory(directory)


class RunningFiles:
    """The files ``tidelog-running`` of all log directories of a node, and their lists of logs.

    After a disk has failed, this run has no files.
    """

    def __init__(self, files: Files, directories: Sequence[LogDirectory]) -> None:
        self._files = files
        self._directories = directories
        self._has_disk_failed = False
        self._lists: dict[LogDirectory, RunningLogs] = {}
        # Reentrant, because a failure may be reported by a pool thread or during a call here.
        self._guard = RLock()

    def __repr__(self) -> str:
        return (
            f"<RunningFiles {len(self._directories)}"
            f" directories{', a disk failed' if self._has_disk_failed else ''}>"
        )

    def keep_list(self, directory: LogDirectory) -> None:
        """Create the list of a directory's logs, and update it whenever a log changes.

        Nothing is written to the file before ``write``.
        """
        listed = RunningLogs(
            self._files, directory.path, lambda error: self._give_up(directory, error)
        )
        self._lists[directory] = listed
        directory.on_extent, directory.on_going = listed.note, listed.forget

    def note_checkpoint(self, path: Path) -> None:
        """Add a written checkpoint to the list of its directory."""
        for directory, listed in self._lists.items():
            if directory.path == path.parent:
                listed.note_checkpoint(path.name)

    def _give_up(self, directory: LogDirectory, error: OSError) -> None:
        """Remove the files of all directories, because one list cannot be written any more.

        The list would soon name deleted logs.
        """
        self.note_disk_failed()
        if is_full_disk(error):
            logger.warning(
                "log directory %s is full: after a kill this broker will count as one that lost"
                " records",
                directory.path,
            )
        else:
            directory.note_error(error)

    def write(
        self, broker_epoch: int, extents: Mapping[Path, Mapping[TopicPartition, Extent]]
    ) -> None:
        """Write the running epoch and the list of logs in each directory.

        The list is written first, because it is not trusted alone.
        """
        with self._guard:
            for directory in self._directories:
                if self._has_disk_failed:
                    return
                with _noted(directory):
                    if self._write_list(directory, broker_epoch, extents.get(directory.path, {})):
                        write_running_epoch(self._files, directory.path, broker_epoch)

    def rewrite_lists(
        self, broker_epoch: int, extents: Mapping[Path, Mapping[TopicPartition, Extent]]
    ) -> None:
        """List the logs that a start has found, in case it ends before its registration."""
        for directory in self._directories:
            if not directory.is_offline:
                with _noted(directory):
                    self._write_list(directory, broker_epoch, extents.get(directory.path, {}))

    def _write_list(
        self, directory: LogDirectory, broker_epoch: int, extents: Mapping[TopicPartition, Extent]
    ) -> bool:
        checkpoints = [
            name for name in (*ALL_CHECKPOINTS, VOTES) if self._files.exists(directory.path / name)
        ]
        try:
            self._lists[directory].begin(broker_epoch, extents, checkpoints)
        except OSError as error:
            if not is_full_disk(error):
                raise
            logger.warning(
                "log directory %s is full: after a kill this broker will count as one that lost"
                " records",
                directory.path,
            )
            return False
        return True

    def end(self) -> None:
        """Close the lists."""
        for listed in self._lists.values():
            listed.end()

    def remove_durably(self) -> None:
        """Remove the files durably, because this start does not trust them."""
        for directory in self._directories:
            if not directory.is_offline:
                with _noted(directory):
                    remove_running_epoch(self._files, directory.path, is_durable=True)

    def note_disk_failed(self) -> None:
        """Remove the files at once, for the rest of this run.

        The removal need not be durable, because the files have no meaning after a power loss.
        """
        with self._guard:
            self._has_disk_failed = True
            for directory in self._directories:
                try:
                    remove_running_epoch(self._files, directory.path)
                except OSError as error:
                    logger.error(
                        "log directory %s keeps %s: %s", directory.path, RUNNING_FILE, error
                    )


@contextmanager
def _noted(directory: LogDirectory) -> Iterator[None]:
    """Catch a disk error of the ``with`` block, and pass it on to the directory.

    An error of the disk itself takes the directory offline.
    """
    try:
        yield
    except OSError as error:
        directory.note_error(error)
