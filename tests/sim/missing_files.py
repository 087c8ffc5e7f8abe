"""Takes, cuts or exchanges files of a simulated node while it is down.

The next start has to report that.

Decides what may be taken so that a start can know it: what the list of the last run, a recovery
point or a high watermark names. The tail behind all of these is not known to the node; it is in
``docs/reliability.md`` among what is not noticed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random

from log_service.common.types import CLUSTER_METADATA_TOPIC, TopicPartition
from log_service.records.batch import iterate_headers
from log_service.storage.checkpoint_writer import ALL_CHECKPOINTS
from log_service.storage.checkpoints import (
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offsets,
)
from log_service.storage.file_names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    parse_directory_name,
    parse_file_name,
)
from log_service.storage.running_files import RUNNING_FILE
from log_service.storage.running_logs import RUNNING_LOGS_FILE, read_running_logs
from tests.sim.cluster_plan import Aim
from tests.sim.disk import Directory, Disk, Inode
from tests.sim.files import MemoryFiles
from tests.sim.node_history import TopicPlan
from tests.sim.node_host import Death
from tests.sim.node_plan import Fault

MISSING_FILES = Aim(
    name="missing files",
    faults=(
        Fault.MISSING_FILES,
        Fault.MISSING_FILES,
        Fault.DIE,
        Fault.SEVERAL_DIE,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
    ),
    deaths=(Death.KILL,),
    properties={
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": "2000",
        "log.flush.offset.checkpoint.interval.ms": "500",
        "replica.high.watermark.checkpoint.interval.ms": "500",
    },
    fields={
        "seconds": 20.0,
        "pause_seconds": 3.0,
        "session_seconds": 2.0,
        "member_count": 1,
        "records_per_second": 15.0,
        "reassigner_count": 0,
        "topics": (
            TopicPlan(
                name="safe",
                partition_count=3,
                is_synced=True,
                replication_factor=3,
                configs={"min.insync.replicas": "2"},
            ),
        ),
    },
)
"""Directories, segments, checkpoints and lists of nodes that were killed are removed, cut or
exchanged before the next start.
"""


class Loss(Enum):
    """The damage to the files of a node that is down."""

    DIRECTORY = "directory of a partition is removed"
    SEGMENT = "segment is removed"
    TAIL = "log is cut"
    EXCHANGED = "directories of two topics are exchanged"
    INDEXES = "indexes are removed"
    CHECKPOINT = "checkpoint is removed"
    LIST = "list of the logs is removed"
    EPOCH = "epoch of the run is removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One log on the disk of a node that is down; up to ``known_end`` the node knows that it
    reached.
    """

    path: Path
    topic_partition: TopicPartition
    directory: Directory
    known_end: int

    def segments(self) -> list[tuple[int, Inode]]:
        """Return the segments by their base offsets."""
        found = (
            (parse_file_name(name, LOG_SUFFIX), node)
            for name, node in self.directory.children.items()
        )
        return sorted(
            (base, node)
            for base, node in found
            if base is not None and isinstance(node, Inode) and node.content
        )


def take(
    disk: Disk, rng: Random, directory: Path, *, may_damage: bool = True
) -> tuple[Loss, str] | None:
    """Take something out of a log directory, and return its description.

    None if there is nothing whose loss could be known.
    """
    logs = [log for log in _logs(disk, directory) if log.known_end > 0 and log.segments()]
    kinds = [kind for kind in Loss if may_damage or kind is not Loss.SEGMENT]
    for kind in rng.sample(kinds, len(kinds)):
        told = _take(kind, disk, rng, directory, logs)
        if told is not None:
            return kind, told
    return None


def move_away(disk: Disk, path: Path) -> None:
    """Move a directory out of the log directory."""
    disk.rename_nodes(
        [
            (disk.directory(path.parent), path.name, None),
            (disk.root, f"moved-{path.name}", disk.directory(path)),
        ]
    )


def _take(kind: Loss, disk: Disk, rng: Random, directory: Path, logs: list[Found]) -> str | None:  # noqa: PLR0911 - one for each kind
    if kind in (Loss.CHECKPOINT, Loss.LIST, Loss.EPOCH):
        names = {
            Loss.CHECKPOINT: ALL_CHECKPOINTS,
            Loss.LIST: (RUNNING_LOGS_FILE,),
            Loss.EPOCH: (RUNNING_FILE,),
        }[kind]
        there = [name for name in names if disk.find(directory / name) is not None]
        return _remove(disk, directory / rng.choice(there)) if there else None
    if not logs:
        return None
    log = rng.choice(logs)
    if kind is Loss.DIRECTORY:
        return _remove(disk, log.path)
    if kind is Loss.SEGMENT:  # of a log with several, and not the last one, where there is one
        log = rng.choice([each for each in logs if len(each.segments()) > 1] or logs)
        known = [base for base, _node in log.segments() if base < log.known_end]
        known = known[:-1] or known
        return _remove(disk, log.path / f"{rng.choice(known):020}{LOG_SUFFIX}") if known else None
    if kind is Loss.TAIL:
        return _cut(rng, log)
    if kind is Loss.EXCHANGED:
        others = [
            other for other in logs if other.topic_partition.topic != log.topic_partition.topic
        ]
        return _exchange(disk, log.path, rng.choice(others).path) if others else None
    indexes = [
        name
        for name in log.directory.children
        if name.endswith((OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    ]
    for name in indexes:
        _remove(disk, log.path / name)
    return f"indexes of {log.path}" if indexes else None


def _logs(disk: Disk, directory: Path) -> Iterator[Found]:
    files = MemoryFiles(disk)
    listed = read_running_logs(files, directory)
    ends = [
        read_offsets(files, directory / name)
        for name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT)
    ]
    for name, node in sorted(disk.directory(directory).children.items()):
        topic_partition = parse_directory_name(name)
        if (
            topic_partition is None
            or topic_partition.topic == CLUSTER_METADATA_TOPIC
            or not isinstance(node, Directory)
        ):
            continue
        if listed is not None and (extent := listed.extents.get(topic_partition)) is not None:
            known_end = max(
                extent.end_offset, *(offsets.get(topic_partition, 0) for offsets in ends)
            )
            yield Found(
                path=directory / name,
                topic_partition=topic_partition,
                directory=node,
                known_end=known_end,
            )


def _remove(disk: Disk, path: Path) -> str:
    parent = disk.directory(path.parent)
    disk.rename_nodes([(parent, path.name, None)])
    return str(path)


def _exchange(disk: Disk, first: Path, second: Path) -> str:
    parent = disk.directory(first.parent)
    one, other = parent.children[first.name], parent.children[second.name]
    disk.rename_nodes([(parent, first.name, other), (parent, second.name, one)])
    return f"{first} and {second}"


def _cut(rng: Random, log: Found) -> str | None:
    """Cut a segment at or within a batch, below the end that the node knows.

    Later segments go, too.
    """
    base_offset, segment = rng.choice(log.segments())
    places = [
        position
        for position, header in iterate_headers(bytes(segment.content), is_torn_tail_ok=True)
        if header.base_offset < log.known_end
    ]
    if not places:
        return None
    segment.truncate(rng.choice(places) + rng.choice([0, 0, 7]))
    for name in list(log.directory.children):
        base = parse_file_name(name, LOG_SUFFIX)
        if base is not None and base > base_offset:
            log.directory.children.pop(name)
            log.directory.durable.pop(name, None)
    return f"{log.path} behind a batch of the segment {base_offset}"
