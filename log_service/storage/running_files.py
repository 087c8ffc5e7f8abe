"""The file ``tidelog-running`` in each log directory: a killed broker on a machine that runs on has lost nothing.

A broker tells the controller at its registration whether it still has everything that it had before: it names the broker epoch of its last
run (KIP-966). Apache Kafka names it only after a clean stop. After any other end a broker leaves the in-sync and the eligible leader
replicas, because the loss of power takes what was not synced. But the end of a process alone takes nothing: what it wrote is in the page
cache, and the kernel keeps that. So each log directory says which epoch runs, and in which page cache (``Files.page_cache_id``: the boot id
of the kernel, and the directory in its file system). Where the next start finds the same page cache, it names that epoch, too. Its logs are
recovered as after any crash; only the registration differs.

Decides the file's content (JSON), when it is believed, and when it goes. Why it may be believed, and when it is not:

* What counted was written. A leader counts its records, and a follower fetches behind them, only after the whole write has ended. A kill
  in the middle of a write leaves the beginning of batches that counted nowhere; recovery cuts them. A write that failed, as on a full disk,
  is undone and counted nowhere.
* With ``flush.messages=1`` records count only once they are synced. What was read after a kill is synced again before it counts anew.
* A disk that fails: a sync, a read or a write that fails takes its directory offline, and the file goes from all directories before anyone
  hears of the failure. It does not come back in that run. What the kernel could not write after the process had died is told to no process:
  recovery then finds damage that no kill leaves (``LogDirectory.may_lack_records``), or a directory that cannot be read or written, and
  the file is not believed.
* Each directory has to name the same epoch. A new disk has no file. A disk that was away during a run has an older epoch.
* A directory that is another one than before, as a copy that was moved here or another volume, has another identity. So has one on another
  host, or after a start of the kernel.
* Files inside of the directory may be taken or exchanged between two runs. ``running_logs`` lists the logs and their segments.
  ``last_run`` compares them with what a start finds, and the file is believed only where nothing is missing. An older copy of a log
  shows by its end, which lies below the high watermark in the checkpoint. A copy that is younger than the checkpoint is not noticed.
* A start that does not believe the file removes it durably. A volume that is detached by force, is tried on another host and comes back has
  none. A disk that is torn out of the running machine and put back before the next start is not noticed, if what it lost ends with a batch.
* A start that dies before it is registered has appended nothing: the file stays, also in place of the marker of a clean stop, which is
  taken at the start. Between the registration and the next writing of the file, the controller has a newer epoch, and believes no file.
* Apache Kafka does not look at the file. Where it ran in between, the controller has the epoch of that run, and believes no older one.
* A machine that sleeps or moves to another host while it runs takes its page cache along. One that is set back to a snapshot of its memory
  forgets what it has acknowledged since, whether its broker was killed or not: no broker can notice that.

The file is never synced: it says nothing to a machine that forgot what was not synced. Where the page cache has no identity (a system
without ``/proc``, a file system whose writes may wait in a process), there is no file, and a killed broker counts as Apache Kafka's.
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
    """Return the broker epoch of the run that wrote all that is in the page cache of a log directory; None where that is not known."""
    try:
        content = files.read_bytes(directory / RUNNING_FILE)
        found = json.loads(content)
        epoch, page_cache_id = int(found["brokerEpoch"]), found["pageCacheId"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return epoch if page_cache.is_same_page_cache(page_cache_id, files.page_cache_id(directory)) else None


def write_running_epoch(files: Files, directory: Path, broker_epoch: int) -> None:
    """Write the file, without a sync. On a full disk it is left as it was: an older one names an epoch that the controller ignores.

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
    """Remove the file; a missing one is fine.

    Raises:
        OSError: the disk failed.
    """
    if files.exists(directory / RUNNING_FILE):
        files.remove(directory / RUNNING_FILE)
        if is_durable:
            files.sync_directory(directory)


class RunningFiles:
    """The files of all log directories of a node. Once a disk has failed there are none any more in this run."""

    def __init__(self, files: Files, directories: Sequence[LogDirectory]) -> None:
        self._files = files
        self._directories = directories
        self._has_disk_failed = False
        self._lists: dict[LogDirectory, RunningLogs] = {}
        self._guard = RLock()  # a failure may be told by a thread of the pool, and by what is done here

    def __repr__(self) -> str:
        return f"<RunningFiles {len(self._directories)} directories{', a disk failed' if self._has_disk_failed else ''}>"

    def keep_list(self, directory: LogDirectory) -> None:
        """Have the list of a directory's logs follow what becomes of them, from ``write`` on."""
        listed = RunningLogs(self._files, directory.path, lambda error: self._give_up(directory, error))
        self._lists[directory] = listed
        directory.on_extent, directory.on_going = listed.note, listed.forget

    def note_checkpoint(self, path: Path) -> None:
        """Take note of a checkpoint that was written."""
        for directory, listed in self._lists.items():
            if directory.path == path.parent:
                listed.note_checkpoint(path.name)

    def _give_up(self, directory: LogDirectory, error: OSError) -> None:
        """Take the files away where a list can be written no more: it would name logs that are deleted from now on."""
        self.note_disk_failed()
        if is_full_disk(error):
            logger.warning("log directory %s is full: after a kill this broker will count as one that lost records", directory.path)
        else:
            directory.note_error(error)

    def write(self, broker_epoch: int, extents: Mapping[Path, Mapping[TopicPartition, Extent]]) -> None:
        """Say in each directory which epoch runs, and which logs are there: the list first, because it is not believed alone."""
        with self._guard:
            for directory in self._directories:
                if self._has_disk_failed:
                    return
                with _noted(directory):
                    if self._write_list(directory, broker_epoch, extents.get(directory.path, {})):
                        write_running_epoch(self._files, directory.path, broker_epoch)

    def rewrite_lists(self, broker_epoch: int, extents: Mapping[Path, Mapping[TopicPartition, Extent]]) -> None:
        """List what a start has found, for the case that it dies before its broker is registered."""
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
        """Remove the files, at a start that does not believe them."""
        for directory in self._directories:
            if not directory.is_offline:
                with _noted(directory):
                    remove_running_epoch(self._files, directory.path, is_durable=True)

    def note_disk_failed(self) -> None:
        """Remove the files at once and for good. It need not be durable: they say nothing after a loss of power."""
        with self._guard:
            self._has_disk_failed = True
            for directory in self._directories:
                try:
                    remove_running_epoch(self._files, directory.path)
                except OSError as error:
                    logger.error("log directory %s keeps %s: %s", directory.path, RUNNING_FILE, error)


@contextmanager
def _noted(directory: LogDirectory) -> Iterator[None]:
    """Take a directory offline whose disk fails."""
    try:
        yield
    except OSError as error:
        directory.note_error(error)
