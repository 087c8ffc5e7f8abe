"""The file ``tidelog-running`` in each log directory, for claiming the last run after a kill.

A killed broker loses nothing if its machine runs on. At its registration a broker tells the
controller whether it still has everything it had before, by naming the broker epoch of its last run
(KIP-966). Apache Kafka names it only after a clean stop. After any other end a broker leaves the
in-sync and the eligible leader replicas, because a power loss takes unsynced writes. But the end of
a process alone takes nothing, because its writes are in the kernel's page cache.

Therefore each log directory names the epoch that runs and its page cache (``Files.page_cache_id``:
the boot id of the kernel, and the directory in its file system). If the next start finds the same
page cache, it names that epoch too. Its logs are recovered as after any crash. Only the
registration differs.

The module defines the file's content (JSON), and decides when it is trusted and when it is removed.
Why it may be trusted, and when it is not:

- Records that counted were written. A leader counts its records, and a follower fetches behind
  them, only after the whole write has ended. A kill in the middle of a write leaves a part of
  batches that counted nowhere, and recovery cuts it. A write that failed, as on a full disk, is
  undone and counted nowhere.
- With ``flush.messages=1`` records count only once they are synced. Records read after a kill are
  synced again before they count anew.
- A sync, read or write that fails takes its directory offline. The file is removed from all
  directories before the failure is reported, and does not come back in that run. No process learns
  of writes that the kernel could not finish after the process died. Recovery then finds damage that
  no kill leaves (``LogDirectory.may_lack_records``), or a directory that cannot be read or written,
  and the file is not trusted.
- Each directory must name the same epoch. A new disk has no file. A disk that was away during a run
  has an older epoch.
- A different directory, such as a copy that was moved here or another volume, has another identity.
  So has a directory on another host, or after a start of the kernel.
- Files inside the directory may be removed or exchanged between two runs. ``running_logs`` lists
  the logs and their segments. ``last_run`` compares them with the logs that a start finds, and the
  file is trusted only if nothing is missing. An older copy of a log is noticed because its end lies
  below the high watermark in the checkpoint. A copy that is younger than the checkpoint is not
  noticed.
- A start that does not trust the file removes it durably. A volume that is detached by force, tried
  on another host and returned has none. A disk that is torn out of the running machine and put back
  before the next start is not noticed, if its remaining data ends with a batch.
- A start that dies before it is registered has appended nothing, so the file stays. It also
  replaces the marker of a clean stop, which is taken at the start. Between the registration and the
  next write of the file, the controller has a newer epoch and trusts no file.
- Apache Kafka does not read the file. If it ran in between, the controller has the epoch of that
  run and trusts no older one.
- A machine that sleeps or moves to another host while it runs takes its page cache along. A machine
  that is set back to a snapshot of its memory forgets later acknowledgements, whether its broker
  was killed or not. No broker can notice that.

The file is never synced, because it means nothing to a machine that forgot unsynced writes. If the
page cache has no identity, there is no file, and a killed broker counts as Apache Kafka's. That is
so on a system without ``/proc``, or on a file system whose writes may wait in a process.
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
"""Goes with the metadata log, which the logs of partitions do not tell of."""

logger = logging.getLogger(__name__)


def read_running_epoch(files: Files, directory: Path) -> int | None:
    """Return the epoch of the run that wrote everything in a directory's page cache, or None."""
    try:
        content = files.read_bytes(directory / RUNNING_FILE)
        found = json.loads(content)
        epoch, page_cache_id = int(found["brokerEpoch"]), found["pageCacheId"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return epoch if page_cache.is_same_page_cache(page_cache_id, files.page_cache_id(directory)) else None


def write_running_epoch(files: Files, directory: Path, broker_epoch: int) -> None:
    """Write the file without a sync.

    On a full disk the old file stays. It names an epoch that the controller ignores.

    Raises:
        OSError: the disk failed.
    """
    page_cache_id = files.page_cache_id(directory)
    if page_cache_id is None:
        return
    content = {"version": 0, "brokerEpoch": broker_epoch, "pageCacheId": page_cache_id}
    try:
        files.write_atomically(directory / RUNNING_FILE, json.dumps(content).encode(), is_synced=False)
    except OSError as error:
        if not is_full_disk(error):
            raise
        logger.warning("log directory %s is full: after a kill this broker will count as one that lost records", directory)


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
    """The files of all log directories of a node. Once a disk has failed, this run has none."""

    def __init__(self, files: Files, directories: Sequence[LogDirectory]) -> None:
        self._files = files
        self._directories = directories
        self._has_disk_failed = False
        self._lists: dict[LogDirectory, RunningLogs] = {}
        self._guard = RLock()  # reentrant, because a failure may be reported by a pool thread or during a call here

    def __repr__(self) -> str:
        return f"<RunningFiles {len(self._directories)} directories{', a disk failed' if self._has_disk_failed else ''}>"

    def keep_list(self, directory: LogDirectory) -> None:
        """Have the list of a directory's logs follow their changes, from ``write`` on."""
        listed = RunningLogs(self._files, directory.path, lambda error: self._give_up(directory, error))
        self._lists[directory] = listed
        directory.on_extent, directory.on_going = listed.note, listed.forget

    def note_checkpoint(self, path: Path) -> None:
        """Note a checkpoint that was written."""
        for directory, listed in self._lists.items():
            if directory.path == path.parent:
                listed.note_checkpoint(path.name)

    def _give_up(self, directory: LogDirectory, error: OSError) -> None:
        """Remove the files, because a list that cannot be written would soon name deleted logs."""
        self.note_disk_failed()
        if is_full_disk(error):
            logger.warning("log directory %s is full: after a kill this broker will count as one that lost records", directory.path)
        else:
            directory.note_error(error)

    def write(self, broker_epoch: int, extents: Mapping[Path, Mapping[TopicPartition, Extent]]) -> None:
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

    def rewrite_lists(self, broker_epoch: int, extents: Mapping[Path, Mapping[TopicPartition, Extent]]) -> None:
        """List the logs that a start has found, in case it dies before its broker is registered."""
        for directory in self._directories:
            if not directory.is_offline:
                with _noted(directory):
                    self._write_list(directory, broker_epoch, extents.get(directory.path, {}))

    def _write_list(self, directory: LogDirectory, broker_epoch: int, extents: Mapping[TopicPartition, Extent]) -> bool:
        checkpoints = [name for name in (*ALL_CHECKPOINTS, VOTES) if self._files.exists(directory.path / name)]
        try:
            self._lists[directory].begin(broker_epoch, extents, checkpoints)
        except OSError as error:
            if not is_full_disk(error):
                raise
            logger.warning("log directory %s is full: after a kill this broker will count as one that lost records", directory.path)
            return False
        return True

    def end(self) -> None:
        """Close the lists."""
        for listed in self._lists.values():
            listed.end()

    def remove_durably(self) -> None:
        """Remove the files, at a start that does not trust them."""
        for directory in self._directories:
            if not directory.is_offline:
                with _noted(directory):
                    remove_running_epoch(self._files, directory.path, is_durable=True)

    def note_disk_failed(self) -> None:
        """Remove the files at once and for good.

        That need not be durable, because they mean nothing after a power loss.
        """
        with self._guard:
            self._has_disk_failed = True
            for directory in self._directories:
                try:
                    remove_running_epoch(self._files, directory.path)
                except OSError as error:
                    logger.error("log directory %s keeps %s: %s", directory.path, RUNNING_FILE, error)


@contextmanager
def _noted(directory: LogDirectory) -> Iterator[None]:
    """Take a directory offline if its disk fails."""
    try:
        yield
    except OSError as error:
        directory.note_error(error)
