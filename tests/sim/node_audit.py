"""Looks at the disk of a simulated node at each death and each start.

It checks what recovery left of the logs, and whether indexes are true.

The auditor decides from bytes alone what a log holds. It asks the dying node only how far the node
believed its logs to be durable. After a kill every whole batch is still there. After a loss of
power a prefix is, which holds everything that was synced, and everything below the high watermark
of a log that is synced first.

Invariants: looking changes nothing, neither on the disk nor in the node's memory.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from log_service.common.types import CLUSTER_METADATA_TOPIC, TopicPartition
from log_service.records.batch import CorruptBatch, is_crc_valid, iterate_headers, iterate_records
from log_service.storage.file_names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    parse_directory_name,
    parse_file_name,
)
from log_service.storage.indexes import IndexInDoubt
from log_service.storage.log import Log
from log_service.storage.partition_metadata import format_uuid
from log_service.storage.segment import Segment
from tests.sim.disk import Directory, Disk, Inode
from tests.sim.node_checker import Violation
from tests.sim.node_host import DATA_DIRECTORIES, Death, Incarnation, NodeHost
from tests.sim.node_moves import check_places

METADATA_DIRECTORY = "__cluster_metadata-0"


class StoredBatch(NamedTuple):
    """A whole batch on the disk."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    content: bytes


class LogKey(NamedTuple):
    """A partition's directory, and the content of its ``partition.metadata``, which names the
    topic's id.
    """

    path: str
    identity: bytes

    @property
    def name(self) -> str:
        return Path(self.path).name


@dataclass(slots=True)
class DeathRecord:
    """The logs that the node had at its death, and up to which offset each one has to survive."""

    death: Death
    logs: dict[LogKey, list[StoredBatch]]
    floors: dict[LogKey, int]


class Auditor:
    """Watches one host; ``violations`` is what it found."""

    def __init__(self, host: NodeHost) -> None:
        self.violations: list[Violation] = []
        self.checked_log_count = 0
        self.is_damage_expected = False
        """Whether files were taken away, so that a start may refuse a log."""
        self._host = host
        self._floors: dict[LogKey, int] = {}
        self._last_death: DeathRecord | None = None
        host.on_death = self.note_death
        host.on_started = self.check_start

    def note_death(self, death: Death) -> None:
        """Remember what lies on the disk, before it loses anything."""
        self._take_floors()
        known = self._last_death
        is_power_lost = death is Death.POWER or (known is not None and known.death is Death.POWER)
        logs, floors = stored_logs(self._host.disk), dict(self._floors)
        if known is not None:
            # It died again before it served: what was there at first is what counts.
            logs, floors = {**logs, **known.logs}, {**floors, **known.floors}
        self._last_death = DeathRecord(Death.POWER if is_power_lost else death, logs, floors)

    def forget_death(self) -> None:
        """Expect nothing: the node stopped in order, or its disk lied to it."""
        self._last_death = None

    def forget_disk(self) -> None:
        """Expect nothing of any log: another disk is in the machine."""
        self._last_death = None
        self._floors.clear()

    def check_start(self, incarnation: Incarnation) -> None:
        """Compare what recovery left with what there was."""
        record, self._last_death = self._last_death, None
        now = stored_logs(self._host.disk)
        if record is not None:
            self.violations += self._compare(record, now, incarnation)
        self.violations += check_places(self._host.disk, is_calm=False)
        refused = (
            () if self.is_damage_expected else incarnation.broker.foundation.logs.damaged.values()
        )
        for damaged in refused:
            self.violations.append(
                Violation("recovery", f"{damaged.directory} is refused: {damaged.error}")
            )
        for log in logs_of(incarnation):
            self.checked_log_count += 1
            self.violations += check_indexes(self._host.disk, log)
        self._floors = {key: floor for key, floor in self._floors.items() if key in now}

    def _compare(
        self, record: DeathRecord, now: dict[LogKey, list[StoredBatch]], incarnation: Incarnation
    ) -> Iterator[Violation]:
        image = incarnation.broker.image
        for key, before in sorted(record.logs.items()):
            partition = parse_directory_name(key.name)
            assert partition is not None
            if key.name != METADATA_DIRECTORY and partition.topic not in image.topics.by_name:
                continue
            if key not in now and any(other.path == key.path for other in now):
                if record.floors.get(key, 0) > 0 and format_uuid(
                    image.topics.by_name[partition.topic].topic_id
                ) in _id_text(key):
                    yield Violation("recovery", f"{key.path} lost its topic id")
                continue  # another topic of that name
            compare = _compare_compacted if _is_compacted(incarnation, partition) else _compare_log
            yield from compare(
                key.path, before, _found_again(key, now), record, record.floors.get(key, 0)
            )
            if before and key.name != METADATA_DIRECTORY:
                live = incarnation.broker.replicas.partitions[tuple(partition)]  # type: ignore[index]  # a pair
                if live.leader_epoch <= before[-1].leader_epoch:
                    text = f"{partition} is led in epoch {live.leader_epoch}; its log had {before[-1].leader_epoch} before the node died"
                    yield Violation("epoch rises", text)

    def _take_floors(self) -> None:
        incarnation = self._host.current
        if incarnation is None:
            return
        raft = incarnation.broker.open_raft
        if raft is None:
            return
        for key in stored_keys(self._host.disk):
            if key.name == METADATA_DIRECTORY:
                self._floors[key] = max(self._floors.get(key, 0), raft.high_watermark)
        if incarnation.broker.open_rooms is None:
            return
        by_path = {key.path: key for key in stored_keys(self._host.disk)}
        for partition in incarnation.broker.replicas.partitions.values():
            found = None if partition.log is None else by_path.get(str(partition.log.directory))
            if partition.log is None or found is None:
                continue
            floor = partition.log.recovery_point
            if (
                partition.log.config.flush_messages == 1
                and partition.state.is_leader
                and not partition.is_offline
            ):
                floor = max(floor, partition.high_watermark)
            self._floors[found] = floor


def _found_again(key: LogKey, now: dict[LogKey, list[StoredBatch]]) -> list[StoredBatch]:
    """Return what the disk has of a log.

    It is where it was, or where the last step of a move brought it.
    """
    moved = next(
        (other for other in now if (other.name, other.identity) == (key.name, key.identity)), key
    )
    return now.get(key if key in now else moved, [])


def _id_text(key: LogKey) -> str:
    return key.identity.decode(errors="replace")


def _compare_log(
    name: str, before: list[StoredBatch], after: list[StoredBatch], record: DeathRecord, floor: int
) -> Iterator[Violation]:
    last_epoch = before[-1].leader_epoch if before else -1
    first = before[0].base_offset if before else 0
    # Segments that retention had removed may come back.
    after = [batch for batch in after if batch.base_offset >= first]
    start = after[0].base_offset if after else first
    kept = [batch for batch in after if batch.leader_epoch <= last_epoch]
    expected = [batch for batch in before if batch.base_offset >= start]
    if kept != expected[: len(kept)]:
        text = f"{name}: {_ends(kept)} is not a prefix of {_ends(expected)}"
        yield Violation("recovery", f"{text}; it died of {record.death.value}")
        return
    end = kept[-1].last_offset + 1 if kept else start
    if record.death is Death.KILL and len(kept) < len(expected):
        yield Violation(
            "recovery", f"{name} was {_ends(expected)} before the kill, {_ends(kept)} after it"
        )
    elif end < floor and any(batch.last_offset >= end for batch in expected):
        yield Violation(
            "recovery",
            f"{name} was durable up to {floor}, and ends at {end} after {record.death.value}",
        )


def _compare_compacted(
    name: str, before: list[StoredBatch], after: list[StoredBatch], record: DeathRecord, floor: int
) -> Iterator[Violation]:
    """A compacted log holds nothing else at any offset than before, and ends where it has to."""
    last_epoch = before[-1].leader_epoch if before else -1
    kept = [batch for batch in after if batch.leader_epoch <= last_epoch]
    known = _records_of(before)
    wrong = [
        offset
        for offset, content in _records_of(kept).items()
        if known.get(offset, content) != content
    ]
    if wrong:
        yield Violation(
            "recovery", f"{name} holds another record at {wrong[:3]} after {record.death.value}"
        )
    end, was = (batches[-1].last_offset + 1 if batches else 0 for batches in (kept, before))
    if record.death is Death.KILL and end < was:
        yield Violation("recovery", f"{name} ended at {was} before the kill, at {end} after it")
    elif end < min(floor, was):
        yield Violation(
            "recovery",
            f"{name} was durable up to {floor}, and ends at {end} after {record.death.value}",
        )


def _records_of(batches: list[StoredBatch]) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {
        record.offset: (record.key, record.value)
        for batch in batches
        for record in iterate_records(batch.content)
    }


def _is_compacted(incarnation: Incarnation, partition: TopicPartition) -> bool:
    """Whether a log may have holes. A log whose partition is gone and whose directory is not yet
    may have some.
    """
    if partition.topic == CLUSTER_METADATA_TOPIC:
        return False
    found = incarnation.broker.replicas.partitions.get(partition)
    return found is None or (found.log is not None and found.log.config.is_compacted)


def _ends(batches: list[StoredBatch]) -> str:
    return (
        f"[{batches[0].base_offset}, {batches[-1].last_offset}] in {len(batches)} batches"
        if batches
        else "nothing"
    )


def stored_keys(disk: Disk) -> list[LogKey]:
    """The partitions' directories on a disk."""
    keys = []
    for path in DATA_DIRECTORIES:
        node = disk.find(path)
        for name, child in sorted(node.children.items()) if isinstance(node, Directory) else ():
            if isinstance(child, Directory) and parse_directory_name(name) is not None:
                metadata = child.children.get("partition.metadata")
                keys.append(
                    LogKey(
                        str(path / name),
                        bytes(metadata.content) if isinstance(metadata, Inode) else b"",
                    )
                )
    return keys


def stored_logs(disk: Disk) -> dict[LogKey, list[StoredBatch]]:
    """The whole batches of every log on a disk, in order, up to the first that is damaged."""
    return {key: list(_stored_batches(disk.directory(Path(key.path)))) for key in stored_keys(disk)}


def _stored_batches(directory: Directory) -> Iterator[StoredBatch]:
    for name in sorted(
        name for name in directory.children if parse_file_name(name, LOG_SUFFIX) is not None
    ):
        node = directory.children[name]
        assert isinstance(node, Inode)
        content = bytes(node.content)
        end = 0
        try:
            for position, header in iterate_headers(content, is_torn_tail_ok=True):
                whole = content[position : position + header.size_bytes]
                if not is_crc_valid(memoryview(whole)):
                    return
                yield StoredBatch(
                    header.base_offset, header.last_offset, header.partition_leader_epoch, whole
                )
                end = position + header.size_bytes
        except CorruptBatch:
            return
        if end != len(content):
            return


def logs_of(incarnation: Incarnation) -> Iterator[Log]:
    """The open logs of a node that serves."""
    for _, partition in sorted(incarnation.broker.replicas.partitions.items()):
        if partition.log is not None and not partition.is_offline:
            yield partition.log


# Lookups and indexes


def check_lookups(disk: Disk, incarnation: Incarnation) -> Iterator[Violation]:
    """Ask each log for its records by time, and compare with what a look at every record finds."""
    for log in logs_of(incarnation):
        batches = _stored_batches(disk.directory(log.directory))
        records = [
            (record.timestamp, record.offset)
            for batch in batches
            for record in iterate_records(batch.content)
            if record.offset >= log.log_start_offset
        ]
        for timestamp in sorted(
            {
                timestamp + shift
                for timestamp, _ in records[:: max(1, len(records) // 8)]
                for shift in (-1, 0, 1)
            }
        ):
            expected = next(
                ((found, offset) for found, offset in records if found >= timestamp), None
            )
            told = log.offset_for_timestamp(timestamp)
            if (told and (told.timestamp, told.offset)) != expected:
                yield Violation(
                    "lookup by time",
                    f"{log.topic_partition} at {timestamp}: {told}, a look at every record finds {expected}",
                )


def check_indexes(disk: Disk, log: Log) -> Iterator[Violation]:
    """Compare the indexes that would be believed with what the batches say."""
    for segment in log.segments:
        node = disk.find(segment.path())
        if not isinstance(node, Inode):
            yield Violation("indexes", f"{segment.path()} is not on the disk")
            continue
        try:
            headers = list(iterate_headers(bytes(node.content[: segment.size_bytes])))
        except CorruptBatch as error:
            yield Violation("recovery", f"{segment.path()} is served with a damaged batch: {error}")
            continue
        yield from _check_offset_index(disk, segment, headers)
        yield from _check_time_index(
            disk, segment, headers, is_finished=segment is not log.segments.active
        )


def _check_offset_index(disk: Disk, segment: Segment, headers: list) -> Iterator[Violation]:  # type: ignore[type-arg]  # of headers
    entries = _offset_entries(disk, segment)
    if entries is None:
        return
    rebuilt, last_position = [], 0
    for position, header in headers:
        if position - last_position > segment.indexes_in_memory.interval_bytes:
            rebuilt.append((header.last_offset, position))
            last_position = position
    if entries != rebuilt:
        yield Violation(
            "indexes", f"{segment.path(OFFSET_INDEX_SUFFIX)} has {entries}, a rebuild has {rebuilt}"
        )


def _check_time_index(
    disk: Disk,
    segment: Segment,
    headers: list,  # type: ignore[type-arg]  # of headers
    *,
    is_finished: bool,
) -> Iterator[Violation]:
    entries = _time_entries(disk, segment)
    if entries is None:
        return
    largest, true_entries = -1, set()
    for _, header in headers:
        if header.max_timestamp > largest:
            largest = header.max_timestamp
            true_entries.add((largest, header.last_offset))
    wrong = [entry for entry in entries if entry not in true_entries]
    if is_finished and true_entries and max(true_entries) not in entries:
        wrong.append(max(true_entries))
    if wrong or entries != sorted(entries):
        yield Violation(
            "indexes",
            f"{segment.path(TIME_INDEX_SUFFIX)} has {entries}, wrong or missing is {wrong}, true are {sorted(true_entries)}",
        )


def _offset_entries(disk: Disk, segment: Segment) -> list[tuple[int, int]] | None:
    """The entries in memory, or those of the file; None where the node would not believe the file."""
    indexes = segment.indexes_in_memory
    if indexes.is_loaded:
        return list(indexes.offset_index)
    content = _content(disk, segment.path(OFFSET_INDEX_SUFFIX))
    if (
        content is None
        or len(content) % 8
        or (not content and segment.size_bytes > indexes.interval_bytes)
    ):
        return None
    try:
        indexes.open()[0].check(bytearray(content))
    except IndexInDoubt:
        return None
    return [
        (segment.base_offset + offset, position)
        for offset, position in struct.iter_unpack(">ii", content)
    ]


def _time_entries(disk: Disk, segment: Segment) -> list[tuple[int, int]] | None:
    indexes = segment.indexes_in_memory
    if indexes.is_loaded:
        return list(indexes.time_index)
    content = _content(disk, segment.path(TIME_INDEX_SUFFIX))
    if content is None or len(content) % 12 or _offset_entries(disk, segment) is None:
        # In doubt together, built again together.
        return None
    try:
        indexes.open()[1].check(bytearray(content))
    except IndexInDoubt:
        return None
    return [
        (timestamp, segment.base_offset + offset)
        for timestamp, offset in struct.iter_unpack(">qi", content)
    ]


def _content(disk: Disk, path: Path) -> bytes | None:
    node = disk.find(path)
    return bytes(node.content) if isinstance(node, Inode) else None
