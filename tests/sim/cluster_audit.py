"""Looks at the disks of a simulated cluster.

It compares what a death left of a node's logs, and whether all replicas hold the same in the end.

A replica's own tail may be cut by its leader, and may grow again before anyone looks. So what is
compared at a start is what the dead node knew to be committed: below the high watermark nothing may
be missing or other than before, unless power went and it was not synced.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from log_service.common.types import TopicPartition
from log_service.records.batch import iterate_headers, iterate_records
from log_service.storage.file_names import LOG_SUFFIX, offsets_by_suffix, parse_directory_name
from tests.sim.disk import Disk
from tests.sim.node_audit import (
    METADATA_DIRECTORY,
    Auditor,
    DeathRecord,
    LogKey,
    StoredBatch,
    stored_logs,
)
from tests.sim.node_checker import Violation
from tests.sim.node_host import Death, Incarnation, NodeHost


class ClusterAuditor(Auditor):
    """Watches the disk of one node of a cluster."""

    def _compare(
        self, record: DeathRecord, now: dict[LogKey, list[StoredBatch]], incarnation: Incarnation
    ) -> Iterator[Violation]:
        for key, before in sorted(record.logs.items()):
            partition = parse_directory_name(key.name)
            after = now.get(key)
            if partition is None or after is None:
                continue  # the partition is gone, or lives elsewhere
            if key.name == METADATA_DIRECTORY or record.death is Death.POWER:
                yield from _compare_below(
                    key.path, before, after, record, record.floors.get(key, 0)
                )

    def _take_floors(self) -> None:
        """Of a replica only what is committed stays for certain: its leader may cut the rest."""
        super()._take_floors()
        incarnation = self._host.current
        if (
            incarnation is None
            or incarnation.broker.open_rooms is None
            or not self._host.has_partitions
        ):
            return
        for partition in incarnation.broker.replicas.partitions.values():
            if partition.log is not None:
                path = str(partition.log.directory)
                for key in [key for key in self._floors if key.path == path]:
                    self._floors[key] = min(self._floors[key], partition.high_watermark)


def _compare_below(
    name: str,
    before: Sequence[StoredBatch],
    after: Sequence[StoredBatch],
    record: DeathRecord,
    floor: int,
) -> Iterator[Violation]:
    start = after[0].base_offset if after else (before[-1].last_offset + 1 if before else 0)
    found = {batch.base_offset: batch.content for batch in after}
    for batch in before:
        if (
            start <= batch.base_offset
            and batch.last_offset < floor
            and found.get(batch.base_offset) != batch.content
        ):
            text = f"{name} lacks {batch.base_offset} to {batch.last_offset} of epoch {batch.leader_epoch}, durable up to {floor}"
            yield Violation("recovery", f"{text}, after {record.death.value}")
            return


class _Replica(NamedTuple):
    """The log of a partition on one node's disk.

    It begins and ends as far as batches tell, or else the name of its file does.
    """

    host: str
    start: int
    end: int
    batches: list[StoredBatch]


def check_replicas(
    hosts: Sequence[NodeHost],
    ends: Mapping[TopicPartition, int],
    whole: frozenset[str],
    asked: Mapping[TopicPartition, int],
    compacted: frozenset[str] = frozenset(),
) -> Iterator[Violation]:
    """Compare the logs of all replicas on the disks of nodes that have stopped, byte for byte.

    ``ends`` is how far each partition was committed while all replicas were in sync: what is
    committed later, while one node after the other leaves the in-sync replicas and stops, is not on
    those that have left. The topics in ``whole`` are at rest: their replicas also end at the same
    offset. Up to ``asked`` clients had records deleted: where none answers, it may be done at one
    replica alone, and that replica is empty where all of it was committed. Where a cleaner runs,
    those in ``compacted`` have the same records last of each key, wherever each replica's cleaner
    has come to.
    """
    logs: dict[tuple[str, bytes], list[_Replica]] = {}
    for host in hosts:
        for key, batches in stored_logs(host.disk).items():
            partition = parse_directory_name(key.name)
            if partition is not None and key.name != METADATA_DIRECTORY:
                replica = _replica(
                    host.name, batches, _offsets_of_files(host.disk, key), asked.get(partition, 0)
                )
                logs.setdefault((key.name, key.identity), []).append(replica)
    for (name, _), replicas in sorted(logs.items()):
        partition = parse_directory_name(name)
        assert partition is not None
        if partition.topic in compacted:
            yield from _compare_compacted(name, replicas, ends.get(partition, 0))
        else:
            yield from _compare_replicas(
                name, replicas, ends.get(partition, 0), is_at_rest=partition.topic in whole
            )


def _replica(host: str, batches: list[StoredBatch], offsets: Sequence[int], asked: int) -> _Replica:
    """An empty log that begins behind what clients had deleted counts as one that never had
    anything.
    """
    if batches:
        return _Replica(host, batches[0].base_offset, batches[-1].last_offset + 1, batches)
    start = min(offsets, default=0)
    return (
        _Replica(host, start, start, batches) if start <= asked else _Replica(host, 0, 0, batches)
    )


def _offsets_of_files(disk: Disk, key: LogKey) -> list[int]:
    return offsets_by_suffix(disk.directory(Path(key.path)).children).get(LOG_SUFFIX, [])


def _compare_replicas(
    name: str, replicas: Sequence[_Replica], end: int, *, is_at_rest: bool
) -> Iterator[Violation]:
    start = max(replica.start for replica in replicas)
    first = replicas[0]
    expected = _between(first.batches, start, end)
    for other in replicas[1:]:
        found = _between(other.batches, start, end)
        if found != expected:
            different = next(
                (pair for pair in zip(expected, found, strict=False) if pair[0] != pair[1]), None
            )
            text = f"{len(expected)} and {len(found)} batches below {end}"
            if different is not None:
                ours, theirs = different
                text += f"; first {ours[:3]} of {len(ours.content)} bytes and {theirs[:3]} of {len(theirs.content)} bytes"
            yield Violation(
                "replicas are equal", f"{name} on {first.host} and on {other.host} has {text}"
            )
        elif is_at_rest and other.end != first.end:
            yield Violation(
                "replicas are equal",
                f"{name} ends at {first.end} on {first.host}, at {other.end} on {other.host}",
            )


def _compare_compacted(name: str, replicas: Sequence[_Replica], end: int) -> Iterator[Violation]:
    """The last record of each key is the same.

    A tombstone may be gone already, and with it all that has its key.
    """
    found = [(replica.host, _last_of_each_key(replica.batches, end)) for replica in replicas]
    for key in sorted({key for _, last in found for key in last}):
        values = {
            host: last[key] for host, last in found if key in last and last[key][1] is not None
        }
        tombstones = {
            host: last[key] for host, last in found if key in last and last[key][1] is None
        }
        is_left_out = len(values) + len(tombstones) < len(found)
        if len({*values.values(), *tombstones.values()}) > 1 or (values and is_left_out):
            text = f"{key!r} last at { {host: last.get(key, (None,))[0] for host, last in found} }"
            yield Violation("replicas are equal", f"{name} has {text}, of {end} that are committed")


def _last_of_each_key(
    batches: list[StoredBatch], end: int
) -> dict[bytes, tuple[int, bytes | None]]:
    """Return offset and value; markers of transactions have no key that counts."""
    return {
        bytes(record.key): (record.offset, None if record.value is None else bytes(record.value))
        for batch in batches
        if batch.last_offset < end and not is_control(batch.content)
        for record in iterate_records(batch.content)
        if record.key is not None
    }


def is_control(content: bytes) -> bool:
    """Whether a batch holds markers."""
    return next(header.is_control for _, header in iterate_headers(content))


def _between(batches: list[StoredBatch], start: int, end: int) -> list[StoredBatch]:
    return [batch for batch in batches if start <= batch.base_offset and batch.last_offset < end]
